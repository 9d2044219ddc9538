//! `vramlab validate --claims`: what the field says, measured.

use serde::Serialize;

use super::results::{Manifest, command};
use crate::cli::CliError;
use crate::cli::folder::Folder;
use crate::cli::output::Output;
use crate::cli::table::{Column, Table};
use crate::cuda::Card;
use crate::cuda::claims::{
    Allocating, Fragmenting, Freeing, Moving, allocating, fragmenting, freeing, moving,
};
use crate::cuda::row::write_csv;
use crate::plot::{
    Axis, BarChart, BarColumn, BarRow, Chart, LineChart, Point, Series, Shape, Unit,
};
use crate::space::Device;
use crate::units::{GIB, KIB, MIB, format_bytes, format_count, format_nanos, format_ppm};

/// What is filled where the whole card is not asked for.
const ROOM_BYTES: u64 = 8 * GIB;
/// What stays free where it is.
const SPARE_BYTES: u64 = GIB;
/// The largest buffer.
const MOST_BYTES: u64 = GIB;

/// How much of a card the claims may use.
pub(super) struct Asked {
    pub whole_card: bool,
    pub rehearse: bool,
}

#[derive(Serialize)]
struct Claims {
    allocating: Vec<Allocating>,
    fragmenting: Vec<Fragmenting>,
    freeing: Vec<Freeing>,
    moving: Vec<Moving>,
}

/// Measures all four, prints them, and writes them where a folder is given.
pub(super) fn run(
    card: &mut dyn Card,
    device: &Device,
    asked: Asked,
    folder: Option<&Folder>,
    output: &mut Output,
) -> Result<(), CliError> {
    let (room_bytes, most_bytes) = match asked {
        Asked { rehearse: true, .. } => (64 * MIB, 64 * KIB),
        Asked {
            whole_card: true, ..
        } => (whole_card(card)?, MOST_BYTES),
        _ => (ROOM_BYTES, MOST_BYTES),
    };
    let measured = measure(card, device, room_bytes, most_bytes);
    card.clear();
    let claims = measured?;
    if let Some(folder) = folder {
        write(folder, &claims, card)?;
    }
    if output.json {
        return output.result(&claims);
    }
    for (title, table) in [
        (
            "(a) time spent allocating in a loop",
            of_loops(&claims.allocating),
        ),
        (
            "(b) larger requests after every other block was freed",
            of_boards(&claims.fragmenting),
        ),
        (
            "(c) when a free comes back while a kernel runs",
            of_frees(&claims.freeing),
        ),
        ("(d) moves, measured and modelled", of_moves(&claims.moving)),
    ] {
        output.line(title)?;
        for line in table.lines(output.columns, output.colour).0 {
            output.line(&line)?;
        }
    }
    Ok(())
}

fn whole_card(card: &mut dyn Card) -> Result<u64, CliError> {
    let free = card.free_bytes()?.ok_or_else(|| {
        CliError::usage(
            "--whole-card: others use the card",
            "run it on an idle card, or without --whole-card",
        )
    })?;
    Ok(free.saturating_sub(SPARE_BYTES))
}

fn measure(
    card: &mut dyn Card,
    device: &Device,
    room_bytes: u64,
    most_bytes: u64,
) -> Result<Claims, CliError> {
    Ok(Claims {
        allocating: allocating(card, most_bytes)?,
        fragmenting: fragmenting(card, room_bytes)?,
        freeing: freeing(card)?,
        moving: moving(card, device, most_bytes)?,
    })
}

fn write(folder: &Folder, claims: &Claims, card: &dyn Card) -> Result<(), CliError> {
    folder.file("allocating.csv", |out| write_csv(&claims.allocating, out))?;
    folder.file("fragmenting.csv", |out| write_csv(&claims.fragmenting, out))?;
    folder.file("freeing.csv", |out| write_csv(&claims.freeing, out))?;
    folder.file("moving.csv", |out| write_csv(&claims.moving, out))?;
    let about = card.identity().about;
    folder.chart("allocating", &chart_of_loops(&claims.allocating, &about))?;
    folder.chart("moving", &chart_of_moves(&claims.moving, &about))?;
    let manifest = Manifest {
        vramlab: env!("CARGO_PKG_VERSION"),
        command: command(),
        card: &card.identity(),
        traces: Vec::new(),
        policies: Vec::new(),
        files: folder.files(),
    };
    folder.json("manifest.json", &manifest)
}

fn of_loops(rows: &[Allocating]) -> Table {
    let mut table = Table::new(vec![
        Column::words("way", 0),
        Column::number("bytes", 0),
        Column::number("turns", 1),
        Column::number("allocating", 0),
        Column::number("all", 0),
        Column::number("share", 0),
    ]);
    for row in rows {
        table.row(vec![
            row.way.into(),
            format_bytes(row.bytes).into(),
            format_count(row.turns).into(),
            format_nanos(row.allocating_ns).into(),
            format_nanos(row.total_ns).into(),
            format_ppm(row.share_ppm).into(),
        ]);
    }
    table
}

fn of_boards(rows: &[Fragmenting]) -> Table {
    let mut table = Table::new(vec![
        Column::words("way", 0),
        Column::number("blocks", 0),
        Column::number("of bytes", 0),
        Column::number("freed", 1),
        Column::number("asked", 0),
        Column::words("served", 0),
    ]);
    for row in rows {
        table.row(vec![
            row.way.into(),
            format_count(row.blocks).into(),
            format_bytes(row.block_bytes).into(),
            format_bytes(row.freed_bytes).into(),
            format_bytes(row.asked_bytes).into(),
            if row.served { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

fn of_frees(rows: &[Freeing]) -> Table {
    let mut table = Table::new(vec![
        Column::words("call", 0),
        Column::number("kernel", 0),
        Column::number("came back\nafter", 0),
        Column::number("10th\npercentile", 1),
        Column::number("90th\npercentile", 1),
    ]);
    for row in rows {
        table.row(vec![
            row.call.into(),
            format_nanos(row.kernel_ns).into(),
            format_nanos(row.returned_ns).into(),
            format_nanos(row.low_ns).into(),
            format_nanos(row.high_ns).into(),
        ]);
    }
    table
}

fn of_moves(rows: &[Moving]) -> Table {
    let mut table = Table::new(vec![
        Column::number("bytes", 0),
        Column::number("by", 0),
        Column::number("measured", 0),
        Column::number("10th\npercentile", 1),
        Column::number("90th\npercentile", 1),
        Column::number("model", 0),
        Column::number("wrong\nbytes", 1),
    ]);
    for row in rows {
        table.row(vec![
            format_bytes(row.bytes).into(),
            format_bytes(row.distance_bytes).into(),
            format_nanos(row.measured_ns).into(),
            format_nanos(row.low_ns).into(),
            format_nanos(row.high_ns).into(),
            format_nanos(row.model_ns).into(),
            format_count(row.broken_bytes).into(),
        ]);
    }
    table
}

/// Sizes that the picture shows, where they were measured; the others are in the csv.
const PICTURED_BYTES: [u64; 4] = [8 * KIB, 512 * KIB, 32 * MIB, GIB];

/// One row a way, one column a size.
fn chart_of_loops(rows: &[Allocating], about: &str) -> Chart {
    let measured = |bytes: &u64| rows.iter().any(|row| row.bytes == *bytes);
    let sizes: Vec<u64> = PICTURED_BYTES.into_iter().filter(measured).collect();
    let column = |bytes: &u64| BarColumn {
        label: format!("of {}", format_bytes(*bytes)),
        unit: Unit::Percent,
        end: Some(100.0),
        guide: None,
    };
    let mut ways: Vec<&str> = rows.iter().map(|row| row.way).collect();
    ways.sort_unstable();
    ways.dedup();
    let share = |way: &str, bytes: u64| {
        let row = rows.iter().find(|row| row.way == way && row.bytes == bytes);
        row.map(|row| row.share_ppm as f64 / 1e4)
    };
    let bar = |way: &str| BarRow {
        name: way.into(),
        values: sizes.iter().map(|bytes| share(way, *bytes)).collect(),
    };
    Chart::Bars(BarChart {
        title: "Share of a loop's time that goes into allocating its buffer".into(),
        subtitle: about.into(),
        columns: sizes.iter().map(column).collect(),
        rows: ways.into_iter().map(bar).collect(),
    })
}

fn chart_of_moves(rows: &[Moving], about: &str) -> Chart {
    let curve = |name: &str, over_itself: bool, value: fn(&Moving) -> u64| {
        let of_kind = rows
            .iter()
            .filter(|row| (row.distance_bytes < row.bytes) == over_itself);
        let points = of_kind.map(|row| Point::at(row.bytes as f64, value(row) as f64));
        Series {
            name: name.into(),
            shape: Shape::Line,
            points: points.collect(),
        }
    };
    Chart::Lines(LineChart {
        title: "Time of a move inside the card".into(),
        subtitle: about.into(),
        x: Axis::new("bytes moved", Unit::Bytes),
        y: Axis::new("the host waits", Unit::TimeNs),
        series: vec![
            curve("measured", false, |row| row.measured_ns),
            curve("model", false, |row| row.model_ns),
            curve("over itself, measured", true, |row| row.measured_ns),
            curve("over itself, model", true, |row| row.model_ns),
        ],
        guides: Vec::new(),
        apart: false,
    })
}
