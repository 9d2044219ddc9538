//! What a smaller trace must still show: predicates and comparisons of policies.
//!
//!     keep    = and ('||' and)*          and  = not ('&&' not)*
//!     not     = '!' not | '(' keep ')' | fact | value order value
//!     fact    = ('fails' | 'serves' | 'diverges' | 'breaks') '(' POLICY ')'
//!     value   = METRIC '(' POLICY ')' | NUMBER          order = '>' '>=' '<' '<=' '==' '!='
//!
//! A POLICY is anything that `--policy` takes. A METRIC is a column of a row or a ratio
//! derived from them; `reserved`, `occupied` and `requested` are their peaks. A NUMBER is
//! written in the unit of the metric beside it: `3GiB`, `5ms`, `30%`, `12`.

use std::ops::Range;
use std::sync::Arc;

use crate::experiment::fault::{FileError, Text};
use crate::observe::Metric;
use crate::presets::nearest;

/// What errors call the expression.
const NAME: &str = "--keep";
/// How deep parentheses and negations may be nested.
const DEEPEST: usize = 64;

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
        let mut parser = Parser {
            text: Arc::new(Text {
                file: NAME.into(),
                text: text.to_owned(),
            }),
            at: 0,
            depth: 0,
            policies: Vec::new(),
            atoms: Vec::new(),
        };
        let root = parser.or()?;
        parser.blanks();
        if parser.at < text.len() {
            return Err(parser.expected("&&, || or the end", parser.at));
        }
        Ok(Keep {
            text: parser.text,
            policies: parser.policies,
            atoms: parser.atoms,
            root,
        })
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

struct Parser {
    text: Arc<Text>,
    at: usize,
    depth: usize,
    policies: Vec<Named>,
    atoms: Vec<(Atom, Range<usize>)>,
}

/// A side of a comparison before the other one is known.
enum Side {
    Fact(Fact, usize),
    Metric(&'static Metric, usize),
    Literal(String),
}

impl Parser {
    fn rest(&self) -> &str {
        &self.text.text[self.at..]
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Passes over a sign, if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn expected(&self, what: &str, at: usize) -> FileError {
        let found = self.text.text[at..].chars().next();
        let (found, length) = match found {
            Some(letter) => (format!("'{letter}'"), letter.len_utf8()),
            None => ("the end".into(), 0),
        };
        self.text
            .fault(at..at + length, format!("expected {what}, found {found}"))
            .or("such as --keep 'fails(best-fit) && serves(first-fit)'")
    }

    fn or(&mut self) -> Result<Node, FileError> {
        let mut left = self.and()?;
        while self.take("||") {
            left = Node::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, FileError> {
        let mut left = self.not()?;
        while self.take("&&") {
            left = Node::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, FileError> {
        self.blanks();
        if self.depth == DEEPEST {
            let what = format!("more than {DEEPEST} parentheses and negations inside each other");
            return Err(self.text.fault(self.at..self.at + 1, what));
        }
        self.depth += 1;
        let node = if self.take("!") {
            Node::Not(Box::new(self.not()?))
        } else if self.take("(") {
            let inner = self.or()?;
            if !self.take(")") {
                return Err(self.expected("&&, || or )", self.at));
            }
            inner
        } else {
            self.atom()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node, FileError> {
        let from = self.at;
        let left = self.side()?;
        let left_end = self.at;
        let atom = match left {
            Side::Fact(fact, policy) => Atom::Fact(fact, policy),
            Side::Metric(..) | Side::Literal(_) => {
                self.blanks();
                let found = ORDERS
                    .iter()
                    .find(|(sign, _)| self.rest().starts_with(sign));
                let Some((sign, order)) = found else {
                    return Err(self.expected("> >= < <= == or !=", self.at));
                };
                self.at += sign.len();
                self.blanks();
                let right_from = self.at;
                let right = self.side()?;
                let spans = (from..left_end, right_from..self.at);
                let (left, right) = self.sides(left, right, spans)?;
                Atom::Compare(left, *order, right)
            }
        };
        self.atoms.push((atom, from..self.at));
        Ok(Node::Atom(self.atoms.len() - 1))
    }

    /// Both sides of a comparison, numbers read in the unit of the other side.
    fn sides(
        &self,
        left: Side,
        right: Side,
        spans: (Range<usize>, Range<usize>),
    ) -> Result<(Value, Value), FileError> {
        let number = |metric: &Metric, text: &str, span: Range<usize>| {
            let parsed = metric.parse(text);
            parsed
                .map(Value::Number)
                .map_err(|what| self.text.fault(span, what))
        };
        match (left, right) {
            (Side::Metric(one, a), Side::Metric(other, b)) if one.unit == other.unit => {
                Ok((Value::Metric(one, a), Value::Metric(other, b)))
            }
            (Side::Metric(one, _), Side::Metric(other, _)) => {
                let what = format!("'{}' and '{}' have different units", one.name, other.name);
                Err(self.text.fault(spans.0.start..spans.1.end, what))
            }
            (Side::Metric(metric, of), Side::Literal(text)) => {
                let number = number(metric, &text, spans.1)?;
                Ok((Value::Metric(metric, of), number))
            }
            (Side::Literal(text), Side::Metric(metric, of)) => {
                let number = number(metric, &text, spans.0)?;
                Ok((number, Value::Metric(metric, of)))
            }
            (Side::Literal(_), Side::Literal(_)) => {
                let what = "two numbers: one side must be a metric, such as reserved(pytorch)";
                Err(self.text.fault(spans.0.start..spans.1.end, what))
            }
            (Side::Fact(..), _) | (_, Side::Fact(..)) => {
                let what = "this is true or false, and has no size";
                Err(self.text.fault(spans.1, what))
            }
        }
    }

    fn side(&mut self) -> Result<Side, FileError> {
        self.blanks();
        let from = self.at;
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Side::Literal(self.literal()));
        }
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest().find(|c: char| !letters(c));
        let word = self.rest()[..end.unwrap_or(self.rest().len())].to_owned();
        if word.is_empty() {
            return Err(self.expected("a predicate such as fails(best-fit), or a metric", from));
        }
        self.at += word.len();
        let span = from..self.at;
        if let Some((_, fact)) = FACTS.iter().find(|(name, _)| *name == word) {
            return Ok(Side::Fact(*fact, self.policy()?));
        }
        let metric = Metric::find(&word).or_else(|_| Metric::find(&format!("peak_{word}")));
        let metric = metric.map_err(|error| self.unknown(span, &word, &error.known))?;
        Ok(Side::Metric(metric, self.policy()?))
    }

    fn unknown(&self, span: Range<usize>, word: &str, metrics: &str) -> FileError {
        let facts = FACTS.iter().map(|(name, _)| *name);
        let near = nearest(facts.chain(metrics.split(", ")), word);
        let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        let help = format!(
            "predicates are fails, serves, diverges and breaks; metrics are {metrics}; also \
             reserved, occupied and requested for their peaks"
        );
        self.text
            .fault(
                span,
                format!("there is no predicate or metric '{word}'{hint}"),
            )
            .or(help)
    }

    /// A number with its unit.
    fn literal(&mut self) -> String {
        let rest = self.rest();
        let number = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')));
        let number = number.unwrap_or(rest.len());
        let behind = &rest[number..];
        let blanks = behind.len() - behind.trim_start().len();
        let unit = &behind[blanks..];
        let unit = unit
            .find(|c: char| !(c.is_alphabetic() || c == '%'))
            .unwrap_or(unit.len());
        let end = if unit > 0 {
            number + blanks + unit
        } else {
            number
        };
        let text = rest[..end].to_owned();
        self.at += end;
        text
    }

    /// What stands in the parentheses of a predicate: a policy, which may have some itself.
    fn policy(&mut self) -> Result<usize, FileError> {
        if !self.take("(") {
            return Err(self.expected("( and a policy", self.at));
        }
        let from = self.at;
        let (mut depth, mut quoted) = (1, false);
        for (offset, letter) in self.rest().char_indices() {
            match letter {
                '"' => quoted = !quoted,
                '(' if !quoted => depth += 1,
                ')' if !quoted => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return self.named(from, from + offset);
            }
        }
        let open = from - 1..from;
        Err(self.text.fault(open, "this parenthesis is never closed"))
    }

    fn named(&mut self, from: usize, to: usize) -> Result<usize, FileError> {
        self.at = to + 1;
        let inside = &self.text.text[from..to];
        let spec = inside.trim();
        if spec.is_empty() {
            return Err(self
                .text
                .fault(from - 1..to + 1, "a policy is missing here"));
        }
        if let Some(known) = self.policies.iter().position(|named| named.spec == spec) {
            return Ok(known);
        }
        let start = from + inside.len() - inside.trim_start().len();
        let named = Named {
            spec: spec.to_owned(),
            span: start..start + spec.len(),
        };
        self.policies.push(named);
        Ok(self.policies.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an expression where the atoms are as given.
    fn value(text: &str, atoms: &[bool]) -> bool {
        let keep = Keep::parse(text).expect("it is well formed");
        assert_eq!(keep.atoms.len(), atoms.len(), "{text}");
        keep.holds(&mut |at| atoms[at])
    }

    #[test]
    fn and_binds_stronger_than_or_and_not_strongest() {
        let text = "fails(a) || fails(b) && !fails(c)";
        assert!(value(text, &[true, false, true]));
        assert!(value(text, &[false, true, false]));
        assert!(!value(text, &[false, true, true]));
        let text = "!( fails(a)||serves(b) )&& !!diverges(c)";
        assert!(value(text, &[false, false, true]));
        assert!(!value(text, &[true, false, true]));
    }

    #[test]
    fn policies_are_whole_texts_and_named_once() {
        let keep = Keep::parse(
            "reserved( pytorch:max_split_size_mb:128,expandable_segments:True ) > \
             reserved(bump:alignment=512B) && fails(bump:alignment=512B)",
        )
        .expect("it is well formed");
        let specs: Vec<&str> = keep.policies.iter().map(|named| &*named.spec).collect();
        assert_eq!(
            specs,
            [
                "pytorch:max_split_size_mb:128,expandable_segments:True",
                "bump:alignment=512B"
            ]
        );
        assert_eq!(&keep.text()[keep.policies[0].span.clone()], specs[0]);
        assert_eq!(keep.atom_text(1), "fails(bump:alignment=512B)");
        assert!(keep.asks_figures(0) && keep.asks_figures(1));
        assert!(!Keep::parse("fails(a)").expect("it is").asks_figures(0));
    }

    #[test]
    fn numbers_are_read_in_the_unit_of_the_metric() {
        let number = |text: &str| match Keep::parse(text).expect("well formed").atoms[0].0 {
            Atom::Compare(_, _, Value::Number(number))
            | Atom::Compare(Value::Number(number), _, _) => number,
            _ => panic!("{text} compares with a number"),
        };
        assert_eq!(number("reserved(a) > 3GiB"), 3 << 30);
        assert_eq!(number("1.5 MiB <= footprint(a)"), 3 << 19);
        assert_eq!(number("cost(a) >= 5ms"), 5_000_000);
        assert_eq!(number("mean_external_fragmentation(a) > 30%"), 300_000);
        assert_eq!(number("failed(a) == 12"), 12);
    }

    #[test]
    fn errors_name_the_place() {
        let told = |text: &str| {
            let error = Keep::parse(text).expect_err(text);
            (error.span.clone().expect("a place"), error.to_string())
        };
        for (text, span, what) in [
            (
                "fails(a) & serves(b)",
                9..10,
                "expected &&, || or the end, found '&'",
            ),
            (
                "fail(a)",
                0..4,
                "no predicate or metric 'fail'; did you mean 'fails'?",
            ),
            ("fails(a", 5..6, "never closed"),
            ("fails( )", 5..8, "a policy is missing"),
            (
                "reserved(a)",
                11..11,
                "expected > >= < <= == or !=, found the end",
            ),
            ("reserved(a) > 3GB", 14..17, "'GB' is ambiguous"),
            ("reserved(a) > failed(b)", 0..23, "different units"),
            ("3 > 4", 0..5, "two numbers"),
            ("(fails(a)", 9..9, "expected &&, || or ), found the end"),
            ("", 0..0, "expected a predicate"),
            ("fails(a) && é", 12..14, "expected a predicate"),
            ("reserved(a) > fails(b)", 14..22, "true or false"),
        ] {
            let (place, message) = told(text);
            assert_eq!(place, span, "{text}: {message}");
            assert!(message.contains(what), "{text}: {message}");
            assert!(message.starts_with("--keep:1:"), "{message}");
        }
        let deep = "!".repeat(100) + "fails(a)";
        assert!(told(&deep).1.contains("inside each other"));
    }
}
