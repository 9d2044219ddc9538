//! Snapshots of more than 2 GiB: one text is larger than any number of 31 bits.
//!
//! A test binary of its own, and one test in it: the peak of a process is measured.

use vramlab::files::peak_memory_bytes;
use vramlab::trace::snapshot;

/// Bytes of the one large text.
const TEXT_BYTES: usize = (2 << 30) + (1 << 20);

/// A snapshot whose only entry carries a text of so many zero bytes under a key that no
/// reader knows: `{'device_traces': [[{'action': 'alloc', 'addr': 4096, 'size': 512,
/// 'note': TEXT}]]}`. The zeros are never touched, so that they cost no memory.
fn pickle(text_bytes: usize) -> Vec<u8> {
    let short = |text: &str| {
        let length = u8::try_from(text.len()).expect("a short text");
        [&[0x8c, length], text.as_bytes()].concat()
    };
    let head = [
        &b"\x80\x04}"[..],
        &short("device_traces"),
        b"]]}(",
        &short("action"),
        &short("alloc"),
        &short("addr"),
        b"M\x00\x10",
        &short("size"),
        b"M\x00\x02",
        &short("note"),
        b"\x8d",
        &(text_bytes as u64).to_le_bytes(),
    ]
    .concat();
    let tail = b"uaas.";
    let mut bytes = vec![0; head.len() + text_bytes + tail.len()];
    bytes[..head.len()].copy_from_slice(&head);
    bytes[head.len() + text_bytes..].copy_from_slice(tail);
    bytes
}

#[test]
fn a_text_of_two_gib_is_read_over_and_a_cut_one_is_told() {
    let bytes = pickle(TEXT_BYTES);
    assert!(bytes.len() > 2 << 30);
    let before = peak_memory_bytes();

    let read = snapshot::read(&bytes).expect("a well-formed pickle");
    let [entry] = &read.device_traces[0][..] else {
        panic!("one entry");
    };
    assert_eq!((entry.address(), entry.bytes), (4096, 512));
    assert_eq!(read.ignored_keys, [("note".to_owned(), 1)]);

    let opcode = bytes.iter().position(|byte| *byte == 0x8d);
    let opcode = opcode.expect("the text's opcode") as u64;
    let cut = &bytes[..bytes.len() - (4 << 20)];
    let message = snapshot::read(cut).expect_err("it is cut").to_string();
    let (needed, left) = (TEXT_BYTES as u64, cut.len() as u64 - opcode - 9);
    let told = format!("byte {opcode}: the file ends here: {needed} more bytes are needed, {left}");
    assert!(message.starts_with(&told), "{message}");

    if let (Some(before), Some(after)) = (before, peak_memory_bytes()) {
        let grown = after - before;
        assert!(
            grown < bytes.len() as u64 / 4,
            "the peak grew by {grown} bytes"
        );
        println!("the peak grew by {grown} bytes");
    } else {
        println!("this system does not tell the peak of a process");
    }
}
