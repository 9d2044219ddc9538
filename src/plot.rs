//! Plots: what was measured, as pictures made to be read on paper, in SVG and in PNG.
//!
//! A chart is plain data ([`LineChart`], [`BarChart`], [`AddressMap`], [`SizeHistogram`], [`SpreadChart`],
//! [`HeatMap`], [`ParetoChart`]) and knows nothing of traces or policies but their names. It is laid out once, as marks on a sheet (`scene`), and only then drawn by
//! plotters (`canvas`), so that both formats show the same. A name has the same colour in every
//! chart (`palette`). The same chart gives the same bytes, on any machine: the font is in the binary.

mod axis;
mod bars;
mod canvas;
pub mod experiment;
mod frame;
mod heat;
mod histogram;
mod lines;
mod map;
mod palette;
mod pareto;
mod rows;
mod scene;
mod spread;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::files::write_atomically;

pub use axis::{Axis, Unit};
pub use bars::{BarChart, BarColumn, BarRow, Outcome};
pub use heat::HeatMap;
pub use histogram::{SizeBin, SizeHistogram};
pub use lines::{Guide, LineChart, Point, Series, Shape};
pub use map::{AddressMap, Colouring, Rect, Segment, size_classes};
pub use pareto::{ParetoChart, ParetoPoint};
pub use spread::{Spread, SpreadChart, SpreadPanel, Summary};

/// A picture, before it is drawn.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Curves over time, events or another number.
    Lines(LineChart),
    /// Horizontal bars, one row a policy.
    Bars(BarChart),
    /// Address by time.
    Map(AddressMap),
    /// How many requests of which size.
    Histogram(SizeHistogram),
    /// How a measure spreads over seeds.
    Spread(SpreadChart),
    /// A measure over two parameters.
    Heat(HeatMap),
    /// Two measures against each other.
    Pareto(ParetoChart),
}

impl Chart {
    /// Lays the chart out.
    fn scene(&self) -> scene::Scene {
        match self {
            Chart::Lines(chart) => lines::scene(chart),
            Chart::Bars(chart) => bars::scene(chart),
            Chart::Map(chart) => map::scene(chart),
            Chart::Histogram(chart) => histogram::scene(chart),
            Chart::Spread(chart) => spread::scene(chart),
            Chart::Heat(chart) => heat::scene(chart),
            Chart::Pareto(chart) => pareto::scene(chart),
        }
    }
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vectors and text, 1600 units wide.
    Svg,
    /// Pixels, 1600 wide.
    Png,
}

impl Format {
    /// The usual ending of a file name, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Png => "png",
        }
    }
}

/// Why a chart was not drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The file could not be written.
    #[error("cannot write the plot {}: {source}", path.display())]
    Write {
        /// The file meant to be written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The drawing library refused.
    #[error("cannot draw: {0}")]
    Backend(String),
    /// The pixels could not be encoded.
    #[error("cannot encode the PNG: {0}")]
    Encode(#[from] png::EncodingError),
}

impl PlotError {
    /// Wraps an error of plotters, whose type differs with the backend.
    fn backend(error: impl std::fmt::Display) -> Self {
        PlotError::Backend(error.to_string())
    }
}

/// Draws a chart into the bytes of a file.
///
/// # Errors
/// When the drawing library or the encoder fails; no input is known to bring that about.
pub fn render(chart: &Chart, format: Format) -> Result<Vec<u8>, PlotError> {
    let scene = chart.scene();
    match format {
        Format::Svg => canvas::svg(&scene),
        Format::Png => canvas::png(&scene),
    }
}

/// Draws a chart in both formats, laid out once.
///
/// # Errors
/// As [`render`].
pub fn render_both(chart: &Chart) -> Result<[(Format, Vec<u8>); 2], PlotError> {
    let scene = chart.scene();
    Ok([
        (Format::Svg, canvas::svg(&scene)?),
        (Format::Png, canvas::png(&scene)?),
    ])
}

/// Draws a chart into a file, which is either complete or not touched.
///
/// # Errors
/// As [`render`], and when the file or its neighbour cannot be written.
pub fn draw(chart: &Chart, path: &Path, format: Format) -> Result<(), PlotError> {
    let bytes = render(chart, format)?;
    write_atomically(path, |out| out.write_all(&bytes)).map_err(|source| PlotError::Write {
        path: path.to_owned(),
        source,
    })
}
