//! The palette: which colour, dash and marker a name has, the same in every chart.
//!
//! Colours are those of Okabe and Ito (without their yellow, too pale on white), then Paul Tol's
//! "muted" scheme: both are chosen for colour-blind readers. Dash and marker say the same once more.

use super::scene::Color;

/// A dash pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dash {
    /// No gaps.
    Solid,
    /// Even dashes.
    Even,
    /// Dots.
    Dotted,
    /// A dash and a dot.
    OneOne,
    /// Long dashes.
    Long,
    /// A dash and two dots.
    OneTwo,
}

impl Dash {
    /// All patterns, in the order in which a clash tries them.
    const ALL: [Dash; 6] = [
        Dash::Solid,
        Dash::Even,
        Dash::Dotted,
        Dash::OneOne,
        Dash::Long,
        Dash::OneTwo,
    ];

    /// Lengths drawn and left out, by turns, in sheet units; at least one pair.
    pub fn pattern(self) -> &'static [f64] {
        match self {
            Dash::Solid => &[f64::INFINITY, 0.0],
            Dash::Even => &[14.0, 8.0],
            Dash::Dotted => &[4.0, 6.0],
            Dash::OneOne => &[16.0, 6.0, 4.0, 6.0],
            Dash::Long => &[30.0, 9.0],
            Dash::OneTwo => &[16.0, 6.0, 4.0, 6.0, 4.0, 6.0],
        }
    }
}

/// A shape that marks a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// A disc.
    Circle,
    /// A square on its side.
    Square,
    /// A triangle pointing up.
    Up,
    /// A square on its corner.
    Diamond,
    /// A triangle pointing down.
    Down,
    /// A diagonal cross.
    Cross,
}

impl Marker {
    const ALL: [Marker; 6] = [
        Marker::Circle,
        Marker::Square,
        Marker::Up,
        Marker::Diamond,
        Marker::Down,
        Marker::Cross,
    ];
}

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub color: Color,
    pub dash: Dash,
    pub marker: Marker,
}

const BLUE: Color = (0x00, 0x72, 0xB2);
const ORANGE: Color = (0xE6, 0x9F, 0x00);
const GREEN: Color = (0x00, 0x9E, 0x73);
const VERMILION: Color = (0xD5, 0x5E, 0x00);
const PINK: Color = (0xCC, 0x79, 0xA7);
const SKY: Color = (0x56, 0xB4, 0xE9);
const BLACK: Color = (0x1A, 0x1A, 0x1A);
const INDIGO: Color = (0x33, 0x22, 0x88);
const OLIVE: Color = (0x99, 0x99, 0x33);
const WINE: Color = (0x88, 0x22, 0x55);
const TEAL: Color = (0x44, 0xAA, 0x99);
const FOREST: Color = (0x11, 0x77, 0x33);
const VIOLET: Color = (0xAA, 0x44, 0x99);
const BROWN: Color = (0x66, 0x11, 0x00);
const GREY: Color = (0x77, 0x77, 0x77);

/// All colours, in the order in which a clash tries them and classes without an order take them.
pub(super) const COLORS: [Color; 15] = [
    BLUE, ORANGE, GREEN, VERMILION, PINK, SKY, INDIGO, OLIVE, WINE, TEAL, FOREST, VIOLET, BROWN,
    GREY, BLACK,
];

/// Eight steps of viridis, dark to light, for classes with an order.
#[rustfmt::skip]
pub(super) const RAMP: [Color; 8] = [
    (0x44, 0x01, 0x54), (0x46, 0x32, 0x7E), (0x36, 0x5C, 0x8D), (0x27, 0x7F, 0x8E),
    (0x1F, 0xA1, 0x87), (0x4A, 0xC1, 0x6D), (0xA0, 0xDA, 0x39), (0xFD, 0xE7, 0x25),
];

/// The looks that never change, so that a reader of one chart can read the next.
#[rustfmt::skip]
const FIXED: [(&str, Color, Dash, Marker); 23] = [
    ("bump", GREY, Dash::Solid, Marker::Square),
    ("first-fit", BLUE, Dash::Solid, Marker::Circle),
    ("next-fit", SKY, Dash::Solid, Marker::Up),
    ("best-fit", GREEN, Dash::Solid, Marker::Diamond),
    ("worst-fit", VERMILION, Dash::Solid, Marker::Down),
    ("size-class", ORANGE, Dash::Solid, Marker::Square),
    ("uniform", OLIVE, Dash::Solid, Marker::Circle),
    ("growing", TEAL, Dash::Solid, Marker::Up),
    ("hybrid", VIOLET, Dash::Solid, Marker::Diamond),
    ("buddy", PINK, Dash::Solid, Marker::Square),
    ("tlsf", WINE, Dash::Solid, Marker::Down),
    ("stream-first-fit", BLUE, Dash::Even, Marker::Square),
    ("compaction", GREEN, Dash::Even, Marker::Circle),
    ("pytorch", BLACK, Dash::Solid, Marker::Circle),
    ("xla-bfc", INDIGO, Dash::Solid, Marker::Up),
    ("rmm", FOREST, Dash::Solid, Marker::Square),
    ("cupy-pool", BROWN, Dash::Solid, Marker::Diamond),
    ("cuda-malloc", GREY, Dash::Even, Marker::Circle),
    ("cuda-malloc-async", GREY, Dash::Dotted, Marker::Up),
    ("ort-arena", VIOLET, Dash::Even, Marker::Square),
    ("requested", GREEN, Dash::Solid, Marker::Circle),
    ("occupied", BLUE, Dash::Solid, Marker::Square),
    ("reserved", ORANGE, Dash::Solid, Marker::Up),
];

/// Every look there is: colours times dashes times markers.
const LOOKS: usize = COLORS.len() * Dash::ALL.len() * Marker::ALL.len();

/// Looks for the names of one chart, in their order, no two alike (up to `LOOKS` of them).
///
/// A name of the fixed list keeps its look. A spec of a listed algorithm (`pytorch:...`, `rmm-pool`)
/// has its colour, a compaction the colour of what it runs over; any other name is placed by a hash
/// of its letters. Where two would look alike, the later one moves on to the next free look.
pub(super) fn assign(names: &[&str]) -> Vec<Look> {
    let mut looks: Vec<Option<Look>> = names.iter().map(|name| fixed(name).map(entry)).collect();
    for at in 0..names.len() {
        if looks[at].is_some() && !looks[..at].contains(&looks[at]) {
            continue;
        }
        let wish = wish(names[at]);
        let taken = |look: &Look| looks.iter().flatten().any(|other| alike(*look, *other));
        let free = (0..LOOKS)
            .map(|turn| moved(wish, turn))
            .find(|look| !taken(look));
        let same = |look: &Look| looks.contains(&Some(*look));
        let other = || {
            (0..LOOKS)
                .map(|turn| moved(wish, turn))
                .find(|look| !same(look))
        };
        looks[at] = Some(free.or_else(other).unwrap_or(wish));
    }
    looks.into_iter().flatten().collect()
}

/// As [`assign`], for signs without a stroke: no two have the same colour and marker, up to as many
/// as there are pairs of both.
pub(super) fn signs(names: &[&str]) -> Vec<Look> {
    let mut looks = assign(names);
    for at in 0..looks.len() {
        let (done, rest) = looks.split_at_mut(at);
        let taken = |look: &Look| {
            let same = |other: &Look| (other.color, other.marker) == (look.color, look.marker);
            done.iter().any(same)
        };
        // So many steps apart two looks differ in their marker, then in their colour.
        let other = |turn: usize| Look {
            marker: Marker::ALL[(rest[0].marker as usize + turn) % Marker::ALL.len()],
            ..moved(rest[0], turn / Marker::ALL.len() * Dash::ALL.len())
        };
        let free = (0..Marker::ALL.len() * COLORS.len()).map(other);
        if let Some(look) = free.into_iter().find(|look| !taken(look)) {
            rest[0] = look;
        }
    }
    looks
}

/// Whether two curves could be taken for one another; the marker alone is a small difference.
fn alike(a: Look, b: Look) -> bool {
    a.color == b.color && a.dash == b.dash
}

fn fixed(name: &str) -> Option<usize> {
    FIXED.iter().position(|entry| entry.0 == name)
}

fn entry(at: usize) -> Look {
    let (_, color, dash, marker) = FIXED[at];
    Look {
        color,
        dash,
        marker,
    }
}

/// The look a name would have if it stood alone.
fn wish(name: &str) -> Look {
    let hash = hash(name);
    let color = match family(name) {
        Some(at) => FIXED[at].1,
        None => COLORS[(hash % COLORS.len() as u64) as usize],
    };
    // A relative of a listed policy is never drawn solid: that is the policy itself.
    let dash = Dash::ALL[1 + (hash / 16 % 5) as usize];
    Look {
        color,
        dash,
        marker: Marker::ALL[(hash / 128 % 6) as usize],
    }
}

/// The entry whose colour a spec takes.
fn family(name: &str) -> Option<usize> {
    let (head, options) = name.split_once(':').unwrap_or((name, ""));
    if head == "compaction" {
        let over = options
            .split(',')
            .find_map(|option| option.strip_prefix("over="));
        return over
            .and_then(|inner| fixed(inner).or_else(|| family(inner)))
            .or(fixed(head));
    }
    let relative = ["pytorch", "rmm"]
        .into_iter()
        .find(|root| head.starts_with(root));
    fixed(head).or_else(|| relative.and_then(fixed))
}

/// The look `turn` steps after another: first other dashes of its colour, then other colours, then
/// other markers.
fn moved(from: Look, turn: usize) -> Look {
    let dash = Dash::ALL.iter().position(|d| *d == from.dash).unwrap_or(0);
    let marker = Marker::ALL
        .iter()
        .position(|m| *m == from.marker)
        .unwrap_or(0);
    let color = COLORS.iter().position(|c| *c == from.color).unwrap_or(0);
    let dashes = Dash::ALL.len();
    Look {
        color: COLORS[(color + turn / dashes) % COLORS.len()],
        dash: Dash::ALL[(dash + turn) % dashes],
        marker: Marker::ALL[(marker + turn / (dashes * COLORS.len())) % Marker::ALL.len()],
    }
}

/// FNV-1a, 64 bits: stable over versions and machines, as the standard library's hash is not.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
