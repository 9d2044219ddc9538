//! The opcodes of pickle, by Python's names.

pub(super) const MARK: u8 = b'(';
pub(super) const STOP: u8 = b'.';
pub(super) const PROTO: u8 = 0x80;
pub(super) const FRAME: u8 = 0x95;

pub(super) const NONE: u8 = b'N';
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const BININT: u8 = b'J';
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const LONG1: u8 = 0x8a;
pub(super) const LONG4: u8 = 0x8b;
pub(super) const BINFLOAT: u8 = b'G';
pub(super) const INT: u8 = b'I';
pub(super) const LONG: u8 = b'L';
pub(super) const FLOAT: u8 = b'F';

pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const BINUNICODE8: u8 = 0x8d;
pub(super) const UNICODE: u8 = b'V';
pub(super) const SHORT_BINSTRING: u8 = b'U';
pub(super) const BINSTRING: u8 = b'T';
pub(super) const SHORT_BINBYTES: u8 = b'C';
pub(super) const BINBYTES: u8 = b'B';
pub(super) const BINBYTES8: u8 = 0x8e;

pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const DICT: u8 = b'd';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';
pub(super) const EMPTY_LIST: u8 = b']';
pub(super) const LIST: u8 = b'l';
pub(super) const APPEND: u8 = b'a';
pub(super) const APPENDS: u8 = b'e';
pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const TUPLE: u8 = b't';
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;

pub(super) const MEMOIZE: u8 = 0x94;
pub(super) const BINPUT: u8 = b'q';
pub(super) const LONG_BINPUT: u8 = b'r';
pub(super) const PUT: u8 = b'p';
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';
pub(super) const GET: u8 = b'g';

/// Python's name of an opcode that imports, calls or looks up something, if `byte` is one.
pub(super) fn refused(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return None,
    })
}
