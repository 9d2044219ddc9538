//! What a page says in words and tables, before any script runs, and how it becomes markup.

use std::fmt::Write as _;

/// A heading and what stands below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What stands below it.
    pub parts: Vec<Part>,
}

/// One piece of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What the section comes to: large.
    Lead(String),
    /// A sentence.
    Text(String),
    /// A sentence of less importance.
    Note(String),
    /// Sentences one below the other.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// A line as it is, such as a frame of a stack.
    Code(String),
    /// What is opened on request.
    Fold(Section),
    /// A heading of its own.
    Under(Section),
}

/// On which side a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How a cell is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// Better than the rest.
    Good,
    /// A warning.
    Warn,
    /// Of less importance.
    Faint,
}

/// Rows under columns; the first cell of a row names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// What the table shows, for those who cannot see it.
    pub caption: String,
    /// The titles.
    pub columns: Vec<(String, Align)>,
    /// The rows; a row may end early.
    pub rows: Vec<Vec<(String, Tone)>>,
}

/// A text that a page can hold anywhere, attributes included.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

/// The markup of a section, its heading of this level.
pub(super) fn section(section: &Section, level: u8, out: &mut String) {
    let title = escaped(&section.title);
    let _ = writeln!(out, "<section>\n<h{level}>{title}</h{level}>");
    for part in &section.parts {
        self::part(part, level, out);
    }
    out.push_str("</section>\n");
}

fn part(part: &Part, level: u8, out: &mut String) {
    let mut line = |class: &str, text: &str| {
        let _ = writeln!(out, "<p class=\"{class}\">{}</p>", escaped(text));
    };
    match part {
        Part::Lead(text) => line("lead", text),
        Part::Text(text) => line("text", text),
        Part::Note(text) => line("note", text),
        Part::Code(text) => line("code", text),
        Part::List(items) => {
            out.push_str("<ul>\n");
            for item in items {
                let _ = writeln!(out, "<li>{}</li>", escaped(item));
            }
            out.push_str("</ul>\n");
        }
        Part::Table(table) => self::table(table, out),
        Part::Under(inner) => {
            let (title, level) = (escaped(&inner.title), level + 1);
            let _ = writeln!(out, "<h{level}>{title}</h{level}>");
            for part in &inner.parts {
                self::part(part, level, out);
            }
        }
        Part::Fold(inner) => {
            let title = escaped(&inner.title);
            let _ = writeln!(out, "<details>\n<summary>{title}</summary>");
            for part in &inner.parts {
                self::part(part, level, out);
            }
            out.push_str("</details>\n");
        }
    }
}

fn table(table: &Table, out: &mut String) {
    let caption = escaped(&table.caption);
    // A table that is wider than the screen is moved under its frame, which the keyboard reaches.
    let label = if caption.is_empty() {
        "table"
    } else {
        &caption
    };
    let _ = writeln!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table>"
    );
    if !caption.is_empty() {
        let _ = writeln!(out, "<caption>{caption}</caption>");
    }
    out.push_str("<thead><tr>\n");
    for (title, align) in &table.columns {
        let title = escaped(title).replace('\n', " ");
        let _ = writeln!(out, "<th scope=\"col\"{}>{title}</th>", side(*align));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, (_, align)) in table.columns.iter().enumerate() {
            let (text, tone) = row.get(at).map_or(("", Tone::Plain), |it| (&*it.0, it.1));
            cell(at == 0, text, tone, *align, out);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

fn cell(names_the_row: bool, text: &str, tone: Tone, align: Align, out: &mut String) {
    let tag = if names_the_row {
        "th scope=\"row\""
    } else {
        "td"
    };
    let class = match tone {
        Tone::Plain => "",
        Tone::Good => " data-tone=\"good\"",
        Tone::Warn => " data-tone=\"warn\"",
        Tone::Faint => " data-tone=\"faint\"",
    };
    let end = if names_the_row { "th" } else { "td" };
    let _ = write!(
        out,
        "<{tag}{}{class}>{}</{end}>",
        side(align),
        escaped(text)
    );
}

fn side(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"number\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        let mut out = String::new();
        let bad = "</script><b onclick='x'>\"&".to_owned();
        let table = Table {
            caption: bad.clone(),
            columns: vec![(bad.clone(), Align::Left), ("n".into(), Align::Right)],
            rows: vec![vec![(bad.clone(), Tone::Warn)]],
        };
        let parts = vec![
            Part::Lead(bad.clone()),
            Part::List(vec![bad.clone()]),
            Part::Table(table),
            Part::Under(Section {
                title: bad.clone(),
                parts: vec![Part::Code(bad.clone())],
            }),
            Part::Fold(Section {
                title: bad.clone(),
                parts: vec![Part::Note(bad.clone())],
            }),
        ];
        section(&Section { title: bad, parts }, 2, &mut out);
        assert!(!out.contains("</script") && !out.contains("<b"), "{out}");
        let escaped = "&lt;/script&gt;&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;";
        assert_eq!(out.matches(escaped).count(), 11, "{out}");
        assert!(out.contains("<td class=\"number\"></td>"), "{out}");
    }
}
