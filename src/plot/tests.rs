//! Tests of the plot room: files that are what they claim, layouts without clashes, stable colours.

mod comparisons;
mod samples;

use std::io::Cursor;

use super::palette::assign;
use super::scene::{Align, Mark, Scene, Text, text_width};
use super::*;

/// Every sample with its name.
fn all() -> Vec<(&'static str, Chart)> {
    let mut all = samples::all();
    all.extend(comparisons::all());
    all
}

/// Left, upper, right and lower edge of a text.
fn extent(text: &Text) -> (f64, f64, f64, f64) {
    let (width, half) = (text_width(&text.text, text.face), 0.42 * text.face.size);
    let (x, y) = text.at;
    if text.turned {
        return (x - half, y - width / 2.0, x + half, y + width / 2.0);
    }
    let left = match text.align {
        Align::Left => x,
        Align::Centre => x - width / 2.0,
        Align::Right => x - width,
    };
    (left, y - half, left + width, y + half)
}

fn texts(scene: &Scene) -> Vec<&Text> {
    let texts = scene.marks.iter().filter_map(|mark| match mark {
        Mark::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

#[test]
fn no_label_overlaps_another_or_leaves_the_sheet() {
    for (name, chart) in all() {
        let scene = chart.scene();
        let texts = texts(&scene);
        for (at, text) in texts.iter().enumerate() {
            let a = extent(text);
            let inside = a.0 >= 0.0 && a.1 >= 0.0 && a.2 <= scene.width && a.3 <= scene.height;
            assert!(inside, "{name}: {:?} leaves the sheet: {a:?}", text.text);
            for other in &texts[..at] {
                let b = extent(other);
                let apart = a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
                assert!(apart, "{name}: {:?} overlaps {:?}", text.text, other.text);
            }
        }
    }
}

#[test]
fn files_are_valid_and_the_same_every_time() {
    let temporary = tempfile::tempdir().unwrap();
    // Set to a folder, the variable keeps the pictures to be looked at.
    let kept = std::env::var_os("VRAMLAB_PLOTS").map(std::path::PathBuf::from);
    let folder = kept.unwrap_or_else(|| temporary.path().to_owned());
    for (name, chart) in all() {
        let height = chart.scene().height as u32;
        for format in [Format::Png, Format::Svg] {
            let path = folder.join(format!("{name}.{}", format.extension()));
            draw(&chart, &path, format).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(
                bytes,
                render(&chart, format).unwrap(),
                "{name}: other bytes when drawn again"
            );
            match format {
                Format::Png => check_png(name, &bytes, height),
                Format::Svg => check_svg(name, std::str::from_utf8(&bytes).unwrap()),
            }
        }
    }
    let left = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let parts = left
        .filter(|name| name.to_string_lossy().ends_with(".part"))
        .count();
    assert_eq!(parts, 0, "a half-written file stays");
}

fn check_png(name: &str, bytes: &[u8], height: u32) {
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n", "{name}");
    let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1600, height), "{name}");
    let dark = pixels
        .chunks_exact(3)
        .filter(|pixel| pixel.iter().all(|part| *part < 0x60))
        .count();
    assert!(
        dark > 1000,
        "{name}: no text to be seen: {dark} dark pixels"
    );
    assert_eq!(
        &pixels[..3],
        &[255, 255, 255],
        "{name}: the background is white"
    );
}

/// Tags nest, attributes are quoted, nothing is left unescaped: well-formed as far as plotters writes.
fn check_svg(name: &str, text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, words) = tag
            .split_once('>')
            .unwrap_or_else(|| panic!("{name}: {tag:?} is not closed"));
        assert_eq!(tag.matches('"').count() % 2, 0, "{name}: quotes of {tag:?}");
        assert!(
            !words.chars().any(|c| c.is_control() && c != '\n'),
            "{name}: control character"
        );
        let plain = ["amp;", "lt;", "gt;", "quot;", "apos;", "#"];
        let escaped = |rest: &str| plain.iter().any(|entity| rest.starts_with(entity));
        assert!(
            words.split('&').skip(1).all(escaped),
            "{name}: bare & in {words:?}"
        );
        if let Some(end) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(end), "{name}");
        } else if !tag.ends_with('/') && !tag.starts_with('?') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{name}: {open:?} left open");
    assert!(
        text.contains("DejaVu Sans, Verdana, sans-serif"),
        "{name}: names no font"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent").join("chart.svg");
    let error = draw(&samples::fragmentation(1, 10), &path, Format::Svg).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}

#[test]
fn large_charts_stay_small() {
    for chart in [samples::map(120_000, 3), samples::fragmentation(8, 20_000)] {
        let svg = render(&chart, Format::Svg).unwrap();
        assert!(svg.len() < 5_000_000, "{} bytes", svg.len());
    }
}

#[test]
fn the_same_name_has_the_same_look_in_every_company() {
    let alone = assign(&["tlsf"])[0];
    assert_eq!(assign(&["buddy", "best-fit", "tlsf"])[2], alone);
    let spec = "pytorch:max_split_size_mb:128";
    assert_eq!(
        assign(&[spec])[0],
        assign(&["best-fit", "pytorch", spec])[2]
    );
    assert_eq!(assign(&[spec])[0].color, assign(&["pytorch"])[0].color);
    let compacted = assign(&["compaction:over=buddy,threshold=0.3", "buddy"]);
    assert_eq!(compacted[0].color, compacted[1].color);
    assert_ne!(compacted[0].dash, compacted[1].dash);
}

#[test]
fn no_two_series_of_a_chart_look_alike() {
    let names: Vec<String> = (0..400).map(|at| format!("policy-{at}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.extend([
        "best-fit",
        "first-fit",
        "pytorch",
        "pytorch:a:1",
        "pytorch:a:2",
        "best-fit",
    ]);
    let looks = assign(&names);
    for (at, look) in looks.iter().enumerate() {
        assert!(
            !looks[..at].contains(look),
            "{} looks like another",
            names[at]
        );
    }
    // Where there are few, colour and dash alone tell them apart, without the marker.
    let few = assign(&names[..60]);
    let pairs = |at: usize| (few[at].color, few[at].dash);
    assert!((0..60).all(|a| (0..a).all(|b| pairs(a) != pairs(b))));
}

#[test]
fn ticks_are_round_in_the_unit_shown() {
    let labels = |scale: axis::Scale| {
        scale
            .ticks
            .into_iter()
            .map(|tick| tick.1)
            .collect::<Vec<_>>()
    };
    let gib = 1073741824.0;
    let bytes = axis::Scale::from_zero(Unit::Bytes, 0.0, 7.3 * gib, 9);
    assert_eq!(bytes.title("reserved"), "reserved [GiB]");
    assert_eq!(labels(bytes), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    let time = axis::Scale::over(Unit::TimeNs, 0.0, 10.0 * 3600e9, 6);
    assert_eq!(time.title("time"), "time [h]");
    assert_eq!(labels(time), ["0", "2", "4", "6", "8", "10"]);
    let events = axis::Scale::over(Unit::Events, 0.0, 48_213.0, 5);
    assert_eq!(labels(events), ["0", "10k", "20k", "30k", "40k"]);
    let small = axis::Scale::from_zero(Unit::Bytes, 0.0, 1.5 * gib, 4);
    assert_eq!(labels(small), ["0.0", "0.5", "1.0", "1.5"]);
}

#[test]
fn a_rate_short_of_all_is_never_called_all() {
    assert_eq!(axis::spelled(Unit::Percent, 99.9999), "99.99 %");
    assert_eq!(axis::spelled(Unit::Percent, 100.0), "100 %");
    assert_eq!(axis::spelled(Unit::Percent, 0.0001), "< 0.1 %");
    assert_eq!(axis::spelled(Unit::Percent, 0.0), "0 %");
    assert_eq!(axis::spelled(Unit::Bytes, 1536.0), "1.5 KiB");
}

#[test]
fn size_classes_cover_every_block() {
    let rect = |bytes| Rect {
        x0: 0.0,
        x1: 1.0,
        address: 0,
        bytes,
        class: 99,
    };
    let mut rects: Vec<Rect> = (0..64).map(|log2| rect(1 << log2)).collect();
    let classes = size_classes(&mut rects);
    assert_eq!(classes.len(), 8);
    assert_eq!(classes[0], "1 B \u{2013} 256 B");
    assert!(rects.iter().all(|rect| rect.class < classes.len()));
    assert!(size_classes(&mut []).is_empty());
}

#[test]
fn cells_of_a_wide_heat_map_have_units_of_their_own() {
    let gib = f64::from(1 << 30);
    let mut chart = HeatMap {
        title: "Bytes moved".into(),
        subtitle: String::new(),
        x: "threshold".into(),
        columns: vec!["0.1".into(), "0.9".into()],
        y: "interval".into(),
        rows: vec!["5min".into()],
        value: Axis::new("bytes moved", Unit::Bytes),
        cells: vec![vec![Some(12.0 * 1024.0 * gib), Some(41.5 * gib)]],
        note: String::new(),
    };
    let svg = |chart: &HeatMap| {
        let svg = render(&Chart::Heat(chart.clone()), Format::Svg).expect("it can be drawn");
        String::from_utf8(svg).expect("text")
    };
    let wide = svg(&chart);
    assert!(
        wide.contains("41.5 GiB") && wide.contains("12 TiB"),
        "{wide}"
    );
    chart.cells[0][1] = Some(1024.0 * gib);
    assert!(
        !svg(&chart).contains("1 TiB"),
        "one unit is enough, beside the colours"
    );
}
