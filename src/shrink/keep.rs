//! What a smaller trace must still show: predicates and comparisons of policies.
//!
//! ```text
//! keep    = and ('||' and)*          and  = not ('&&' not)*
//! not     = '!' not | '(' keep ')' | fact | value order value
//! fact    = ('fails' | 'serves' | 'diverges' | 'breaks') '(' POLICY ')'
//! value   = METRIC '(' POLICY ')' | NUMBER          order = '>' '>=' '<' '<=' '==' '!='
//! ```
//!
//! A POLICY is anything that `--policy` takes. A METRIC is a column of a row or a ratio
//! derived from them; `reserved`, `occupied` and `requested` are their peaks. A NUMBER is
//! written in the unit of the metric beside it: `3GiB`, `5ms`, `30%`, `12`.

mod parse;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::experiment::fault::{FileError, Text};
use crate::observe::Metric;

/// What errors call the expression.
const NAME: &str = "--keep";

/// Something that is true or false of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// A request fails.
    Fails,
    /// No request fails.
    Serves,
    /// The model does not meet the recording.
    Diverges,
    /// The policy breaks a rule of the Space.
    Breaks,
}

const FACTS: [(&str, Fact); 4] = [
    ("fails", Fact::Fails),
    ("serves", Fact::Serves),
    ("diverges", Fact::Diverges),
    ("breaks", Fact::Breaks),
];

/// One side of a comparison.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// A metric of a policy, by the policy's place in [`Keep::policies`].
    Metric(&'static Metric, usize),
    /// A number in the other side's unit.
    Number(u64),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the sign that it is named after")]
pub enum Order {
    More,
    AtLeast,
    Less,
    AtMost,
    Equal,
    Unequal,
}

/// Longer signs first.
const ORDERS: [(&str, Order); 6] = [
    (">=", Order::AtLeast),
    ("<=", Order::AtMost),
    ("==", Order::Equal),
    ("!=", Order::Unequal),
    (">", Order::More),
    ("<", Order::Less),
];

impl Order {
    /// Whether `left` stands to `right` as the sign says.
    #[must_use]
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Order::More => left > right,
            Order::AtLeast => left >= right,
            Order::Less => left < right,
            Order::AtMost => left <= right,
            Order::Equal => left == right,
            Order::Unequal => left != right,
        }
    }
}

/// The smallest part that is true or false.
#[derive(Debug, Clone)]
pub enum Atom {
    /// A fact of a policy, by its place in [`Keep::policies`].
    Fact(Fact, usize),
    /// A comparison; false where a side is undefined.
    Compare(Value, Order, Value),
}

/// How atoms are put together.
#[derive(Debug, Clone)]
enum Node {
    Atom(usize),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

/// A policy as the expression names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// As `--policy` takes it.
    pub spec: String,
    /// Where it stands first, in bytes of the expression.
    pub span: Range<usize>,
}

/// An expression that was read.
#[derive(Debug, Clone)]
pub struct Keep {
    text: Arc<Text>,
    /// The policies, each once, in the order of the text.
    pub policies: Vec<Named>,
    /// The atoms with their places, in the order of the text.
    pub atoms: Vec<(Atom, Range<usize>)>,
    root: Node,
}

impl Keep {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong, and where; the file of the error is `--keep`.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        parse::read(text)
    }

    /// The expression as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text.text
    }

    /// The text of an atom.
    #[must_use]
    pub fn atom_text(&self, atom: usize) -> &str {
        &self.text.text[self.atoms[atom].1.clone()]
    }

    /// An error at a place of the expression.
    #[must_use]
    pub fn fault(&self, span: Range<usize>, what: impl Into<String>) -> FileError {
        self.text.fault(span, what)
    }

    /// Whether the expression is true, given its atoms; asks no more of them than it must.
    pub fn holds(&self, atom: &mut dyn FnMut(usize) -> bool) -> bool {
        self.root.holds(atom)
    }

    /// Whether an atom asks whether a model diverges.
    #[must_use]
    pub fn asks_fidelity(&self) -> bool {
        self.has(|fact| fact == Some(Fact::Diverges))
    }

    /// Whether an atom asks for a replay.
    #[must_use]
    pub fn asks_replay(&self) -> bool {
        self.has(|fact| fact != Some(Fact::Diverges))
    }

    fn has(&self, wanted: impl Fn(Option<Fact>) -> bool) -> bool {
        self.atoms.iter().any(|(atom, _)| match atom {
            Atom::Fact(fact, _) => wanted(Some(*fact)),
            Atom::Compare(..) => wanted(None),
        })
    }

    /// Whether more is asked of a policy than whether it fails.
    #[must_use]
    pub fn asks_figures(&self, policy: usize) -> bool {
        let of = |value: &Value| matches!(value, Value::Metric(_, of) if *of == policy);
        self.atoms.iter().any(|(atom, _)| match atom {
            Atom::Compare(left, _, right) => of(left) || of(right),
            Atom::Fact(fact, of) => *fact == Fact::Breaks && *of == policy,
        })
    }
}

impl Node {
    fn holds(&self, atom: &mut dyn FnMut(usize) -> bool) -> bool {
        match self {
            Node::Atom(at) => atom(*at),
            Node::Not(inner) => !inner.holds(atom),
            Node::And(left, right) => left.holds(atom) && right.holds(atom),
            Node::Or(left, right) => left.holds(atom) || right.holds(atom),
        }
    }
}
