//! `stats.csv`: a row a line, what is undefined an empty cell.

use std::io::{self, Write};

use super::{Estimate, Line, Values, Versus};

/// What an estimate becomes: itself and the ends of its interval.
type Three = [(String, Option<f64>); 3];

/// Writes lines as csv, the header first, even where there is no line. Numbers are as
/// short as they can be without loss.
///
/// # Errors
/// What `out` says.
pub fn write_csv(lines: &[Line], out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let words = ["workload", "capacity", "policy", "metric", "n", "undefined"];
    let head = words.map(str::to_owned).into_iter();
    let head = head.chain(figures(None, None).into_iter().map(|(name, _)| name));
    let last = ["baseline", "pairs", "differing", "verdict", "sentence"];
    csv.write_record(head.chain(last.map(str::to_owned)))?;
    for line in lines {
        let versus = line.versus.as_ref();
        let first = [
            line.workload.clone(),
            line.capacity.clone(),
            line.policy.clone(),
            line.metric.to_owned(),
            line.n.to_string(),
            line.undefined.to_string(),
        ];
        let numbers = figures(line.values.as_ref(), versus).into_iter();
        let numbers = numbers.map(|(_, value)| value.map_or_else(String::new, |v| v.to_string()));
        let last = [
            versus.map_or_else(String::new, |versus| versus.baseline.clone()),
            versus.map_or_else(String::new, |versus| versus.pairs.to_string()),
            versus.map_or_else(String::new, |versus| versus.differing.to_string()),
            line.verdict.word().to_owned(),
            line.sentence.clone(),
        ];
        csv.write_record(first.into_iter().chain(numbers).chain(last))?;
    }
    csv.flush()
}

/// The columns of numbers with their values.
fn figures(values: Option<&Values>, versus: Option<&Versus>) -> Vec<(String, Option<f64>)> {
    let value = |name: &str, read: fn(&Values) -> f64| (name.to_owned(), values.map(read));
    let against =
        |name: &str, read: fn(&Versus) -> Option<f64>| (name.to_owned(), versus.and_then(read));
    let mut all = Vec::new();
    all.extend(three("mean", values.map(|it| it.mean)));
    all.extend(three("median", values.map(|it| it.median)));
    all.push(value("first_quartile", |it| it.first_quartile));
    all.push(value("third_quartile", |it| it.third_quartile));
    all.push(value("least", |it| it.least));
    all.push(value("greatest", |it| it.greatest));
    all.push(against("baseline_mean", |it| Some(it.baseline_mean)));
    all.extend(three(
        "mean_difference",
        versus.map(|it| it.mean_difference),
    ));
    all.extend(three(
        "median_difference",
        versus.map(|it| it.median_difference),
    ));
    all.extend(three("ratio", versus.and_then(|it| it.ratio)));
    all.push(against("cliffs_delta", |it| Some(it.cliffs_delta)));
    all.push(against("win_rate", |it| it.win_rate));
    all.push(against("p", |it| it.p));
    all.push(against("p_holm", |it| it.p_holm));
    all
}

fn three(name: &str, estimate: Option<Estimate>) -> Three {
    let ends = estimate.and_then(|estimate| estimate.interval);
    [
        (name.to_owned(), estimate.map(|estimate| estimate.value)),
        (format!("{name}_low"), ends.map(|ends| ends.0)),
        (format!("{name}_high"), ends.map(|ends| ends.1)),
    ]
}
