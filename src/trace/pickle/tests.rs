//! Every opcode by hand, then hostile files.

use proptest::prelude::*;

use super::*;

/// A sink that takes nothing.
struct Plain;

impl Sink for Plain {
    fn word(&self, _text: &[u8]) -> u16 {
        0
    }

    fn dict(&mut self, _pairs: &[Packed], _store: &mut Store) -> Option<Record> {
        None
    }
}

fn read_plain(bytes: &[u8]) -> Result<Document, PickleError> {
    read(bytes, &mut Plain)
}

/// The pickled object as a person would write it; only for shallow ones.
fn show(store: &Store, value: Value) -> String {
    let join = |values: Vec<Value>| {
        let shown: Vec<String> = values.into_iter().map(|item| show(store, item)).collect();
        shown.join(",")
    };
    let unpack = |packed: &[Packed]| packed.iter().map(|&item| store.value(item)).collect();
    match value {
        Value::Text(text) => String::from_utf8_lossy(store.text(text)).into_owned(),
        Value::Int(number) => number.to_string(),
        Value::Large(number) => format!("{number}u"),
        Value::Float(number) => format!("{number:?}"),
        Value::Bool(flag) => flag.to_string(),
        Value::Tuple { .. } => format!("({})", join(unpack(store.tuple(value).unwrap()))),
        Value::List(list) => format!("[{}]", join(store.items(list))),
        Value::Dict(dict) => format!("{{{}}}", join(unpack(store.pairs(dict).unwrap()))),
        other => other.kind().to_owned(),
    }
}

#[track_caller]
fn shows(bytes: &[u8], expected: &str) {
    let document = read_plain(bytes).unwrap();
    assert_eq!(show(&document.store, document.root), expected);
}

#[track_caller]
fn fails(bytes: &[u8], offset: u64, problem: Problem) {
    assert_eq!(
        read_plain(bytes).unwrap_err(),
        PickleError { offset, problem }
    );
}

#[test]
fn atoms_and_numbers() {
    shows(b"\x80\x04N.", "None");
    shows(b"\x88.", "true");
    shows(b"\x89.", "false");
    shows(b"K\xff.", "255");
    shows(b"M\xff\xff.", "65535");
    shows(b"J\xfe\xff\xff\xff.", "-2");
    shows(b"G\x3f\xf8\0\0\0\0\0\0.", "1.5");
    shows(b"I42\n.", "42");
    shows(b"I01\n.", "true");
    shows(b"I00\n.", "false");
    shows(b"L-7L\n.", "-7");
    shows(b"L18446744073709551615L\n.", "18446744073709551615u");
    shows(
        b"L18446744073709551616L\n.",
        "an integer of more than 64 bits",
    );
    shows(b"F2.5\n.", "2.5");
}

#[test]
fn long_integers_of_every_length() {
    shows(b"\x8a\x00.", "0");
    shows(b"\x8a\x01\xff.", "-1");
    shows(b"\x8a\x06\x00\x00\x00\x00\x00\x80.", "-140737488355328");
    shows(b"\x8a\x06\xff\xff\xff\xff\xff\x7f.", "140737488355327");
    shows(
        b"\x8a\x07\xff\xff\xff\xff\xff\xff\x7f.",
        "36028797018963967",
    );
    shows(b"\x8a\x08\0\0\0\0\0\0\0\x80.", "-9223372036854775808");
    shows(b"\x8a\x09\0\0\0\0\0\0\0\x80\0.", "9223372036854775808u");
    shows(
        b"\x8a\x09\0\0\0\0\0\0\0\0\x01.",
        "an integer of more than 64 bits",
    );
    shows(
        b"\x8a\x09\0\0\0\0\0\0\0\0\xff.",
        "an integer of more than 64 bits",
    );
    shows(b"\x8b\x02\0\0\0\x01\x01.", "257");
}

#[test]
fn texts_and_bytes() {
    shows(b"\x8c\x02ab.", "ab");
    shows(b"X\x02\0\0\0ab.", "ab");
    shows(b"\x8d\x02\0\0\0\0\0\0\0ab.", "ab");
    shows(b"U\x02ab.", "ab");
    shows(b"T\x02\0\0\0ab.", "ab");
    shows(b"Vab\n.", "ab");
    shows(b"\x8c\x02\xff\xfe.", "\u{fffd}\u{fffd}");
    shows(b"C\x02ab.", "bytes");
    shows(b"B\x02\0\0\0ab.", "bytes");
    shows(b"\x8e\x02\0\0\0\0\0\0\0ab.", "bytes");
    let what = "a text with escapes";
    fails(b"Va\\u0041\n.", 0, Problem::BadLine { what });
}

#[test]
fn containers() {
    shows(b"}.", "{}");
    shows(b"}(K\x01K\x02K\x03K\x04u.", "{1,2,3,4}");
    shows(b"}K\x01K\x02sK\x03K\x04s.", "{1,2,3,4}");
    shows(b"}(K\x01K\x02u(K\x03K\x04u.", "{1,2,3,4}");
    shows(b"(K\x01K\x02d.", "{1,2}");
    shows(b"].", "[]");
    shows(b"]K\x01a(K\x02K\x03e.", "[1,2,3]");
    shows(b"(K\x01K\x02l.", "[1,2]");
    shows(b").", "()");
    shows(b"K\x01\x85.", "(1)");
    shows(b"K\x01K\x02\x86.", "(1,2)");
    shows(b"K\x01K\x02K\x03\x87.", "(1,2,3)");
    shows(b"(K\x01K\x02K\x03K\x04t.", "(1,2,3,4)");
}

#[test]
fn the_memo_in_all_its_forms() {
    shows(b"](\x8c\x01a\x94h\0h\0e.", "[a,a,a]");
    shows(b"](\x8c\x01aq\x01h\x01e.", "[a,a]");
    shows(b"](\x8c\x01ar\x02\0\0\0j\x02\0\0\0e.", "[a,a]");
    shows(b"](\x8c\x01ap1\ng1\ne.", "[a,a]");
    // What is shared stays one object, also while it grows.
    shows(b"]\x94](h\0h\0e]K\x01a\x86.", "([[],[]],[1])");
    fails(b"h\0.", 0, Problem::MemoUnset { index: 0 });
    fails(b"Nq\x01h\0.", 3, Problem::MemoUnset { index: 0 });
}

#[test]
fn frames_and_trailing_bytes() {
    let bytes = b"\x80\x04\x95\x02\0\0\0\0\0\0\0N.rest";
    assert_eq!(read_plain(bytes).unwrap().trailing_bytes, 4);
    let (needed, left) = (3, 2);
    fails(
        b"\x80\x04\x95\x03\0\0\0\0\0\0\0N.",
        2,
        Problem::Truncated { needed, left },
    );
    fails(b"\x80\x06N.", 0, Problem::Protocol { version: 6 });
}

#[test]
fn whatever_could_run_code_is_refused_by_name() {
    for (byte, opcode) in [
        (b'c', "GLOBAL"),
        (0x93, "STACK_GLOBAL"),
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x92, "NEWOBJ_EX"),
        (0x82, "EXT1"),
        (0x83, "EXT2"),
        (0x84, "EXT4"),
        (b'P', "PERSID"),
        (b'Q', "BINPERSID"),
    ] {
        let bytes = [0x80, 4, b'N', byte, b'.'];
        fails(&bytes, 3, Problem::Refused { opcode });
        let message = read_plain(&bytes).unwrap_err().to_string();
        assert!(message.starts_with(&format!("byte 3: opcode {opcode} is refused")));
        assert!(message.contains("_dump_snapshot"));
    }
    fails(b"N\xfe.", 1, Problem::Unsupported { byte: 0xfe });
}

#[test]
fn damaged_programs() {
    fails(b".", 0, Problem::StackUnderflow);
    fails(b"(.", 1, Problem::StackUnderflow);
    fails(b"\x94.", 0, Problem::StackUnderflow);
    fails(b"u.", 0, Problem::StackUnderflow);
    fails(b"(u.", 1, Problem::StackUnderflow);
    fails(b"Na.", 1, Problem::StackUnderflow);
    fails(b"](Na.", 3, Problem::StackUnderflow);
    fails(b"N\x86.", 1, Problem::StackUnderflow);
    fails(b"N(Ne.", 3, Problem::WrongContainer { wanted: "list" });
    fails(b"N(NNu.", 4, Problem::WrongContainer { wanted: "dict" });
    fails(b"}(Nu.", 3, Problem::OddPairs);
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    let (needed, left) = (u32::MAX.into(), 1);
    let problem = Problem::Truncated { needed, left };
    fails(b"X\xff\xff\xff\xff.", 0, problem.clone());
    fails(b"B\xff\xff\xff\xff.", 0, problem.clone());
    fails(b"\x8b\xff\xff\xff\xff.", 0, problem);
    let (needed, left) = (u64::MAX, 1);
    let problem = Problem::Truncated { needed, left };
    fails(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", 0, problem);
    let index = u32::MAX.into();
    fails(b"Nr\xff\xff\xff\xff.", 1, Problem::MemoIndex { index });
    fails(b"Np4294967295\n.", 1, Problem::MemoIndex { index });
    fails(b"Nj\xff\xff\xff\xff.", 1, Problem::MemoUnset { index });
}

#[test]
fn nesting_without_end_and_lists_in_themselves() {
    const DEPTH: usize = 10_000_000;
    let mut bytes = vec![b'('; DEPTH];
    bytes.push(b'.');
    fails(&bytes, 4096, Problem::TooDeep { limit: 4096 });
    let mut bytes = vec![b']'; DEPTH];
    bytes.push(b'.');
    assert!(read_plain(&bytes).is_ok());
    let mut bytes = vec![b']'; DEPTH / 10];
    bytes.extend(vec![b'a'; DEPTH / 10 - 1]);
    bytes.push(b'.');
    let document = read_plain(&bytes).unwrap();
    assert!(matches!(document.root, Value::List(0)));
    let document = read_plain(b"]\x94h\0a.").unwrap();
    assert_eq!(document.store.items(0), [Value::List(0)]);
}

#[test]
fn billions_of_laughs_stay_a_few_lists() {
    let mut bytes = b"]\x94".to_vec();
    for level in 0..200 {
        bytes.extend_from_slice(b"](");
        for _ in 0..10 {
            bytes.extend_from_slice(&[b'h', level]);
        }
        bytes.extend_from_slice(b"e\x94");
    }
    bytes.push(b'.');
    let document = read_plain(&bytes).unwrap();
    assert_eq!(document.root, Value::List(200));
    assert_eq!(document.store.items(200), [Value::List(199); 10]);
}

#[test]
fn pickles_are_told_by_their_first_bytes() {
    for yes in [
        &b"\x80\x02}"[..],
        b"\x80\x05\x95",
        b"}q\0",
        b"]q\0",
        b"(dp0",
        b"(lp0",
    ] {
        assert!(looks_like_pickle(yes));
    }
    for no in [
        &b""[..],
        b"\x80",
        b"\x80\x06",
        b"PK\x03\x04",
        b"{\"a\":",
        b"[1]",
        b"op,id",
    ] {
        assert!(!looks_like_pickle(no));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        bytes.push(b'.');
        if let Err(error) = read_plain(&bytes) {
            prop_assert!(error.offset < bytes.len() as u64 + 1);
        }
    }

    #[test]
    fn programs_of_plain_opcodes_are_read_or_refused(
        picks in proptest::collection::vec(0_usize..16, 0..300),
    ) {
        const PARTS: [&[u8]; 16] = [
            b"}", b"]", b"(", b"u", b"e", b"s", b"a", b"K\x01", b"\x8c\x01a", b"\x94", b"h\0", b"h\x01",
            b"\x86", b"t", b"d", b"l",
        ];
        let mut bytes: Vec<u8> = picks.iter().flat_map(|&pick| PARTS[pick]).copied().collect();
        bytes.push(b'.');
        if let Err(error) = read_plain(&bytes) {
            prop_assert!(error.offset < bytes.len() as u64);
        }
    }
}
