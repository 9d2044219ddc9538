//! MiniMalloc files by hand: aliases, what is lost, broken rows, round trip.

use super::*;

fn import_text(text: &str, name: &str) -> Result<Trace, TraceError> {
    import(&mut text.as_bytes(), &Source::named(name))
}

fn kinds(trace: &Trace) -> String {
    let letter = |event: &Event| {
        if matches!(event, Event::Alloc { .. }) {
            'a'
        } else {
            'f'
        }
    };
    trace.events.iter().map(letter).collect()
}

#[test]
fn frees_come_before_requests_at_one_tick_and_the_name_tells_the_capacity() {
    let trace = import_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n", "input.12").unwrap();
    assert_eq!(kinds(&trace), "afaf");
    assert_eq!(trace.times_ns, [0, 3, 3, 9]);
    assert_eq!(trace.capacity_bytes, Some(12));
    assert_eq!(
        import_text("id,lower,upper,size\n", "12")
            .unwrap()
            .capacity_bytes,
        None
    );
}

#[test]
fn the_alias_end_is_inclusive_and_what_is_lost_is_told() {
    let trace = import_text(
        "buffer_id,start,end,size,alignment,hint,gaps,offset\n0,0,2,4,48,5,1-2,64\n1,3,3,4,,-1,,\n",
        "a",
    )
    .unwrap();
    assert_eq!(kinds(&trace), "afaf");
    assert_eq!(trace.times_ns, [0, 3, 3, 4]);
    assert!(matches!(
        trace.events[0],
        Event::Alloc { align_log2: 6, .. }
    ));
    assert_eq!(trace.truth.as_ref().unwrap().entries[0].address, 64);
    assert_eq!(trace.report.notes.len(), 4);
}

#[test]
fn broken_rows_name_line_and_value() {
    for (rows, value) in [
        ("0,1,2,3\n0,4,5,6\n", "line 3: id '0' was given in line 2"),
        ("0,5,2,3\n", "line 2: the lifetime 5..2"),
        ("0,-5,2,3\n", "line 2: lower '-5'"),
        ("0,1,2,\n", "line 2: size"),
    ] {
        let text = format!("id,lower,upper,size\n{rows}");
        let message = import_text(&text, "a").unwrap_err().to_string();
        assert!(message.contains(value), "{message}");
    }
    let message = import_text("id,lower,size\n", "a").unwrap_err().to_string();
    assert!(message.contains("'end' or 'upper'"), "{message}");
}

#[test]
fn what_is_written_has_the_same_lifetimes() {
    let text = "id,lower,upper,size,alignment\na,0,2,4,1\nb,1,5,8,256\nc,3,4,8,1\n";
    let trace = import_text(text, "x").unwrap();
    let mut out = Vec::new();
    assert!(write(&trace, &mut out).unwrap().is_empty());
    let again = import_text(std::str::from_utf8(&out).unwrap(), "x").unwrap();
    assert_eq!(again.events, trace.events);
    assert_eq!(again.ids, trace.ids);
}
