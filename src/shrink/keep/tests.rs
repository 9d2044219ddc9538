//! Expressions: what binds how, what is read, and where errors are.

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
        Atom::Compare(_, _, Value::Number(number)) | Atom::Compare(Value::Number(number), _, _) => {
            number
        }
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
