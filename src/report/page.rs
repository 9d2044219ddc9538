//! The page: its sources, what they are filled with, and what lets only them run.

use std::io::{self, Write};

use serde::Serialize;

use super::words::{escaped, section};
use super::{Report, run, track};
use crate::plot;

/// The frame of the page; `{{NAME}}` is filled.
const PAGE: &str = include_str!("../../assets/report/page.html");
/// Styles, in order.
const STYLES: [&str; 2] = [
    include_str!("../../assets/vendor/uplot/uPlot.min.css"),
    include_str!("../../assets/report/style.css"),
];
const UPLOT: &str = include_str!("../../assets/vendor/uplot/uPlot.iife.min.js");
/// The page's own script, in order; all of it shares one scope.
const SCRIPTS: [&str; 12] = [
    include_str!("../../assets/report/units.js"),
    include_str!("../../assets/report/unpack.js"),
    include_str!("../../assets/report/theme.js"),
    include_str!("../../assets/report/axis.js"),
    include_str!("../../assets/report/track.js"),
    include_str!("../../assets/report/frame.js"),
    include_str!("../../assets/report/raster.js"),
    include_str!("../../assets/report/map.js"),
    include_str!("../../assets/report/lines.js"),
    include_str!("../../assets/report/moment.js"),
    include_str!("../../assets/report/pictures.js"),
    include_str!("../../assets/report/main.js"),
];

/// What the page's script finds where, and how to draw it.
#[derive(Serialize)]
struct Index {
    runs: Vec<run::Told>,
    tracks: Vec<track::Told>,
    pictures: Vec<Shown>,
    verdicts: Vec<[&'static str; 2]>,
    /// Colours of classes with an order, dark to light.
    ramp: Vec<String>,
    /// Colours of classes without one.
    colours: Vec<String>,
}

#[derive(Serialize)]
struct Shown {
    workload: String,
    title: String,
}

/// Writes the page. The same report gives the same bytes.
///
/// # Errors
/// What `out` says.
///
/// # Panics
/// If a track names a run that is not there, or has a map where its run has no trace.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (index, data) = packed(report);
    let index = serde_json::to_string(&index).expect("an index is plain data");
    let mut summary = String::new();
    for part in &report.summary {
        section(part, 2, &mut summary);
    }
    let mut notes = String::new();
    for part in &report.notes {
        section(part, 2, &mut notes);
    }
    let mut hasher = blake3::Hasher::new();
    for part in [&report.title, &summary, &notes, &index, &data] {
        hasher.update(part.as_bytes());
    }
    // Nobody can write a text that holds the hash of a page with that text in it: what came
    // with the trace cannot know the one word that lets a script run.
    let nonce = &hasher.finalize().to_hex()[..32];
    let script = SCRIPTS.concat();
    let script = format!("(() => {{\n\"use strict\";\n{script}}})();");
    let styles = STYLES.concat();
    let views = !report.tracks.is_empty();
    let fill = |name: &str| match name {
        "nonce" => nonce.to_owned(),
        "title" => escaped(&report.title),
        "style" => styles.clone(),
        "summary" => summary.clone(),
        "notes" => notes.clone(),
        "views" => shown(views).to_owned(),
        "pictures" => shown(!report.pictures.is_empty()).to_owned(),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "index" => for_script(&index),
        "data" => data.clone(),
        "uplot" => UPLOT.to_owned(),
        "script" => script.clone(),
        other => unreachable!("the page asks for '{other}'"),
    };
    filled(PAGE, fill, out)
}

/// The attribute of what is left out.
fn shown(is: bool) -> &'static str {
    if is { "" } else { "hidden" }
}

/// Writes a frame with its places filled.
fn filled(frame: &str, fill: impl Fn(&str) -> String, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = frame;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a place ends");
        out.write_all(before.as_bytes())?;
        out.write_all(fill(name).as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// JSON that may stand in a script element: nothing in it can end the element or begin a
/// comment.
fn for_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// The index, and the elements that hold the packed data.
fn packed(report: &Report) -> (Index, String) {
    let mut data = String::new();
    let mut add = |id: String, text: &str| {
        data.push_str(&format!(
            "<script type=\"application/octet-stream\" id=\"{id}\">{text}</script>\n"
        ));
    };
    let mut index = Index {
        runs: Vec::new(),
        tracks: Vec::new(),
        pictures: Vec::new(),
        verdicts: track::verdicts(),
        ramp: plot::ramp(),
        colours: plot::colours(),
    };
    let names: Vec<&str> = report.tracks.iter().map(|track| &*track.policy).collect();
    let looks = plot::looks(&names);
    let mut packed = Vec::new();
    for (at, run) in report.runs.iter().enumerate() {
        let own = report.tracks.iter().filter(|track| track.run == at);
        let pack = run::pack(run, &own.collect::<Vec<_>>());
        add(format!("run-{at}"), &pack.parts[0]);
        add(format!("words-{at}"), &pack.parts[1]);
        packed.push(pack);
    }
    for (at, (track, look)) in report.tracks.iter().zip(&looks).enumerate() {
        let (told, text) = track::pack(track, &packed[track.run], look);
        add(format!("track-{at}"), &text);
        index.tracks.push(told);
    }
    for (at, picture) in report.pictures.iter().enumerate() {
        add(
            format!("picture-{at}"),
            &super::pack::deflated(&picture.svg),
        );
        index.pictures.push(Shown {
            workload: picture.workload.clone(),
            title: picture.title.clone(),
        });
    }
    index.runs.extend(packed.into_iter().map(|pack| pack.told));
    (index, data)
}
