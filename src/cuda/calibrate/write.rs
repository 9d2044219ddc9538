//! The cost table as a file of `experiments/devices/`: medians as values, spreads beside
//! them as comments.

use std::fmt::Write as _;

use super::{Calibration, Point, Spread};
use crate::units::{format_bytes, format_bytes_exact};

impl Calibration {
    /// The file. It reads as a [`Device`](crate::space::Device).
    #[must_use]
    pub fn to_toml(&self) -> String {
        let identity = &self.identity;
        let mut text = format!(
            "# {}.\n# Made by `vramlab calibrate`. Each table: [bytes, nanoseconds], medians of the \
             host's time;\n# beside them the 10th to the 90th percentile and how many \
             measurements.\n# back = cuMemCreate + cuMemMap + cuMemSetAccess, unback = cuMemUnmap \
             + cuMemRelease, both of one handle,\n# copy = device-to-device, waited for; the largest moves {} a \
             second.\n# map, access, unmap: single calls, on one handle that is mapped \
             elsewhere too.\n# host_copy: half of a copy to pinned memory of the host and \
             back.\n# sync_ns: from the launch of one kernel over 1 MiB to the host's going on; \
             what runs longer is waited for longer.\n",
            identity.about,
            format_bytes(self.copy_bytes_per_s)
        );
        for fact in &self.facts {
            let _ = writeln!(text, "# {}: {}.", fact.what, fact.found);
        }
        let _ = writeln!(text, "name = {:?}", identity.name);
        let _ = writeln!(text, "about = {:?}", identity.about);
        let _ = writeln!(text, "total_bytes = {}", identity.total_bytes);
        let page = format_bytes_exact(identity.page_bytes);
        let _ = writeln!(text, "page_bytes = {page:?}");
        let sync = self.sync;
        let _ = writeln!(text, "sync_ns = {} # {}", sync.median_ns, beside(sync));
        for (name, points) in self.tables() {
            table(&mut text, name, points);
        }
        text
    }
}

fn table(text: &mut String, name: &str, points: &[Point]) {
    let _ = writeln!(text, "{name} = [");
    for Point { bytes, spread } in points {
        let median = spread.median_ns;
        let _ = writeln!(text, "    [{bytes}, {median}], # {}", beside(*spread));
    }
    text.push_str("]\n");
}

fn beside(spread: Spread) -> String {
    format!(
        "{} to {}, of {}",
        spread.low_ns, spread.high_ns, spread.samples
    )
}

#[cfg(test)]
mod tests {
    use crate::cuda::calibrate::calibrate;
    use crate::cuda::host::HostCard;
    use crate::space::Device;

    #[test]
    fn what_is_written_reads_as_a_device_with_the_medians() {
        let mut card = HostCard::new(1 << 32);
        let measured = calibrate(&mut card, "host", 1 << 16).expect("a card of host memory");
        let device = Device::from_toml(&measured.to_toml()).expect("a device");
        assert_eq!((device.name.as_str(), device.page_bytes), ("host", 2 << 20));
        for point in &measured.malloc {
            assert_eq!(device.malloc_ns(point.bytes), point.spread.median_ns);
        }
        assert_eq!(device.sync_ns, measured.sync.median_ns);
        let tried = measured.facts.iter().map(|fact| fact.what.as_str());
        assert_eq!(tried.filter(|what| what.starts_with("a pool")).count(), 4);
    }
}
