//! Reads an expression: one function a rule of the grammar.

use std::ops::Range;
use std::sync::Arc;

use super::{Atom, FACTS, Fact, Keep, NAME, Named, Node, ORDERS, Value};
use crate::experiment::fault::{FileError, Text};
use crate::observe::Metric;
use crate::presets::nearest;

/// How deep parentheses and negations may be nested.
const DEEPEST: usize = 64;

/// Reads a whole expression.
pub(super) fn read(text: &str) -> Result<Keep, FileError> {
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
