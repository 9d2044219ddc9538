//! `vramlab report`: the page stands alone, holds what it shows exactly, and takes nothing of a
//! trace for markup. What it does in a browser is tested in `tests/browser`.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output};

use flate2::read::ZlibDecoder;
use serde_json::Value;

use vramlab::report::pack::{Column, Pack};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.csv");
const POLICIES: [&str; 2] = ["--policies", "best-fit,first-fit"];

fn vramlab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramlab"));
    let output = command.args(arguments).output();
    output.expect("the command starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// Writes a page about inputs, and reads it.
fn page(inputs: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("report.html");
    let arguments = [&["report"], inputs, &["-o", text(&out)]].concat();
    let output = vramlab(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    fs::read_to_string(&out).expect("the page is text")
}

/// What stands in the element with this id.
fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, after) = page.split_once(&format!(" id=\"{id}\">")).expect(id);
    after.split_once("</script>").expect("it ends").0
}

fn index(page: &str) -> Value {
    serde_json::from_str(element(page, "index")).expect("the index is JSON")
}

/// Every value of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let key = format!(" {name}=\"");
    let parts = page.split(&*key).skip(1);
    parts
        .map(|part| part.split('"').next().expect("a value"))
        .collect()
}

#[test]
fn a_page_stands_alone() {
    let page = page(&[&[TINY][..], &POLICIES].concat());
    let body = page
        .split("<script nonce")
        .next()
        .expect("what is no script");
    assert_eq!(attributes(body, "src"), [""; 0]);
    assert_eq!(attributes(body, "href"), ["data:,", "#views"]);
    for loads in [
        "@import",
        "url(",
        "<link rel=\"stylesheet",
        "<iframe",
        "<img",
    ] {
        assert!(!body.contains(loads), "{loads}");
    }
    for asks in [
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "import(",
        "eval(",
        "innerHTML",
    ] {
        assert!(!page.contains(asks), "{asks}");
    }
    // An address is told nowhere but in the banner of the library and the name of SVG.
    for at in page.match_indices("http").map(|(at, _)| &page[at..]) {
        let known = [
            "http-equiv",
            "https://github.com/leeoniya/uPlot",
            "http://www.w3.org/2000/svg",
        ];
        assert!(known.iter().any(|it| at.starts_with(it)), "{}", &at[..60]);
    }
    let policy = attributes(&page, "content")[0];
    assert!(
        policy.starts_with("default-src 'none'; script-src 'nonce-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !policy.contains('*'),
        "{policy}"
    );
    assert!(page.len() < 200 * 1024, "{} bytes", page.len());
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let arguments = [&[TINY][..], &POLICIES].concat();
    let first = page(&arguments);
    for jobs in ["1", "2"] {
        let again = page(&[&arguments[..], &["--jobs", jobs]].concat());
        assert!(again == first, "{jobs} threads give another page");
    }
}

/// Unpacks columns as the page's script does, from what the page tells of them.
fn unpacked(columns: &Value, data: &str) -> Vec<(String, Vec<Option<u64>>)> {
    let packed = decoded(data);
    let mut bytes = Vec::new();
    let mut inflate = ZlibDecoder::new(&packed[..]);
    inflate.read_to_end(&mut bytes).expect("deflated");
    let mut from = 0;
    let columns = columns.as_array().expect("a list").iter();
    let read = columns.map(|column| {
        let number = |key: &str| column[key].as_u64().expect("a number");
        let (count, width) = (number("count") as usize, number("width") as usize);
        let planes = &bytes[from..from + count * width];
        from += count * width;
        let mut before = 0u64;
        let value = |at: usize| {
            let plane = |plane: usize| u64::from(planes[plane * count + at]) << (8 * plane);
            let word: u64 = (0..width).map(plane).sum();
            if column["delta"] == true {
                let difference = (word >> 1) as i64 ^ -((word & 1) as i64);
                before = before.wrapping_add_signed(difference);
            } else {
                before = word;
            }
            match column["optional"] == true {
                true => (before * number("scale")).checked_sub(1),
                false => Some(before * number("scale")),
            }
        };
        let values = (0..count).map(value).collect();
        (column["name"].as_str().expect("a name").to_owned(), values)
    });
    let read = read.collect();
    assert_eq!(from, bytes.len(), "the columns are all there is");
    read
}

/// Base64, the slow and obvious way.
fn decoded(text: &str) -> Vec<u8> {
    let letters: Vec<u8> = [b'A'..=b'Z', b'a'..=b'z', b'0'..=b'9']
        .into_iter()
        .flatten()
        .chain(*b"+/")
        .collect();
    let mut bytes = Vec::new();
    let (mut word, mut bits) = (0u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = letters
            .iter()
            .position(|it| *it == letter)
            .expect("a letter");
        (word, bits) = (word << 6 | value as u32, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    bytes
}

#[test]
fn packed_columns_come_back() {
    let wild = [
        0,
        1,
        0xffff_ffff,
        1 << 40,
        3,
        u64::from(u32::MAX) + 2,
        7,
        (1 << 52) + 1,
    ];
    let mut pack = Pack::default();
    pack.plain("plain", wild);
    pack.delta("delta", wild);
    pack.delta("scaled", wild.map(|value| value % 1000 * 4096));
    pack.optional("optional", [None, Some(0), Some(999_999), None]);
    pack.plain("empty", []);
    let (columns, data): (Vec<Column>, String) = pack.finish();
    let told = serde_json::to_value(&columns).expect("plain data");
    let read = unpacked(&told, &data);
    let whole = |values: &[u64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    assert_eq!(read[0], ("plain".to_owned(), whole(&wild)));
    assert_eq!(read[1], ("delta".to_owned(), whole(&wild)));
    assert_eq!(read[2].1, whole(&wild.map(|value| value % 1000 * 4096)));
    assert_eq!(read[3].1, [None, Some(0), Some(999_999), None]);
    assert_eq!(read[4].1, []);
}

/// Two blocks of 1 KiB, the lower one given back: by hand.
#[test]
fn the_page_holds_the_blocks_and_the_moments() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("two.csv");
    let rows = "event,id,bytes,tag\nalloc,a,1024,f@a.py:1 < g@b.py:2\nalloc,b,1000,\nfree,a,,\n";
    fs::write(&trace, rows).expect("it is written");
    let page = page(&[text(&trace), "--policies", "best-fit", "--capacity", "4KiB"]);
    let index = index(&page);
    let run = unpacked(&index["runs"][0]["columns"], element(&page, "run-0"));
    let track = unpacked(&index["tracks"][0]["columns"], element(&page, "track-0"));
    let find = |columns: &[(String, Vec<Option<u64>>)], name: &str| -> Vec<u64> {
        let found = columns.iter().find(|column| column.0 == name).expect(name);
        found
            .1
            .iter()
            .map(|value| value.unwrap_or(u64::MAX))
            .collect()
    };
    assert_eq!(find(&run, "request.from"), [0, 1]);
    assert_eq!(
        find(&run, "request.life"),
        [2, 2],
        "freed by event 2; never, which is event 3"
    );
    assert_eq!(find(&run, "request.bytes"), [1024, 1000]);
    assert_eq!(find(&run, "request.stack"), [1, 0]);
    assert_eq!(find(&track, "block.place"), [0, 1024]);
    assert_eq!(find(&track, "block.waste"), [0, 24]);
    assert_eq!(find(&track, "requested"), [1024, 2024, 1000]);
    assert_eq!(find(&track, "list.event"), [0, 1, 2]);
    // Free: 3 KiB; 2 KiB; 1 KiB and 2 KiB, whose bins are 2^10 and 2^11.
    assert_eq!(index["tracks"][0]["free_from"], 10);
    assert_eq!(find(&track, "list.count"), [0, 0, 1, 1, 1, 1]);
    assert_eq!(find(&track, "list.bytes"), [0, 0, 1024, 3072, 2048, 2048]);
    let words = {
        let packed = decoded(element(&page, "words-0"));
        serde_json::from_reader::<_, Value>(ZlibDecoder::new(&packed[..])).expect("JSON")
    };
    assert_eq!(
        words["stacks"],
        serde_json::json!([["f@a.py:1", "g@b.py:2"]])
    );
    assert_eq!(words["names"], serde_json::json!(["a", "b"]));
}

#[test]
fn nothing_of_a_trace_is_markup() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("<b>&'bold'.csv");
    let bad = "</script><script>window.pwned = 1</script><!--";
    let rows = format!(
        "event,id,bytes,tag\nalloc,\"{bad}\",1024,\"{bad}\"\nmark,\"{bad}\",,\nalloc,b,9999999,\"{bad}\"\n"
    );
    fs::write(&trace, rows).expect("it is written");
    let page = page(&[text(&trace), "--policies", "best-fit", "--capacity", "4KiB"]);
    assert_eq!(
        page.matches("<script").count(),
        page.matches("</script>").count()
    );
    // The index, two parts of a run, a track, the library and the page's own script.
    assert_eq!(page.matches("<script").count(), 6);
    assert!(!page.contains("window.pwned") || page.contains("&lt;script&gt;window.pwned"));
    assert!(!page.contains("<b>") && !page.contains("<!--"));
    assert!(
        page.contains("&lt;b&gt;&amp;&#39;bold&#39;.csv"),
        "the title is the name of the file"
    );
    assert!(!element(&page, "index").contains('<'));
}

/// The same sentence and the same figures as `compare` prints.
#[test]
fn the_summary_is_that_of_compare() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    let arguments = [
        &["compare", TINY, "--no-plots", "--out", text(&results)][..],
        &POLICIES,
    ]
    .concat();
    let output = vramlab(&arguments);
    let said = String::from_utf8(output.stdout).expect("text");
    let best = said
        .lines()
        .find(|line| line.starts_with("Best is"))
        .expect("a verdict");
    let row = said
        .lines()
        .find(|line| line.starts_with("best-fit"))
        .expect("a row");
    for inputs in [vec![TINY, POLICIES[0], POLICIES[1]], vec![text(&results)]] {
        let page = page(&inputs);
        assert!(page.contains(best), "{best}");
        let cells = row
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty());
        for cell in cells {
            assert!(page.contains(&format!(">{cell}<")), "{cell} of {row}");
        }
        let bound = page.find(">bound<").expect("the bound");
        assert!(
            bound < page.find(">best-fit<").expect("a policy"),
            "the bound comes first"
        );
        assert_eq!(index(&page)["tracks"].as_array().expect("a list").len(), 2);
    }
}

#[test]
fn a_folder_of_ranks_is_told_over_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, bytes) in [(0, 1024), (1, 4096)] {
        let rows = format!(
            "event,id,bytes\nalloc,a,{bytes}\nalloc,b,1024\nfree,a,\nalloc,c,{}\n",
            2 * bytes
        );
        fs::write(folder.path().join(format!("rank{rank}.csv")), rows).expect("it is written");
    }
    let page = page(&[
        text(folder.path()),
        "--policies",
        "best-fit,bump",
        "--capacity",
        "10KiB",
    ]);
    assert!(page.contains("2 ranks"), "the title counts them");
    assert!(page.contains("on the worst rank (1)"), "the worst is named");
    assert!(
        page.contains("rank 1, event 3"),
        "what fails first is named"
    );
    let index = index(&page);
    assert_eq!(index["tracks"][0]["run"], 0);
    assert_eq!(
        index["runs"][0]["name"], "rank1",
        "the failing rank is shown first"
    );
}

#[test]
fn wrong_inputs_are_told_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    let bare = folder.path().join("bare");
    fs::create_dir(&empty).expect("a folder");
    fs::create_dir(&bare).expect("a folder");
    fs::write(bare.join("rows.csv"), "trace,policy\n").expect("it is written");
    let out = folder.path().join("out.html");
    let nowhere = folder.path().join("no/such/folder/out.html");
    let cases = [
        (vec!["/no/such/trace"], text(&out), 3, "/no/such/trace"),
        (vec![text(&empty)], text(&out), 3, "no trace in this folder"),
        (vec![text(&bare)], text(&out), 3, "it holds no row"),
        (
            vec![TINY, "--policies", "nonsense"],
            text(&out),
            2,
            "nonsense",
        ),
        (
            vec![TINY, POLICIES[0], POLICIES[1]],
            text(&nowhere),
            2,
            "cannot write",
        ),
    ];
    for (inputs, out, code, words) in cases {
        let output = vramlab(&[&["report"], &inputs[..], &["-o", out]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{inputs:?}: {said}");
        assert!(said.contains(words), "{inputs:?}: {said}");
    }
    assert!(!out.exists(), "nothing is left behind");
}

#[test]
fn json_tells_what_the_page_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("page.html");
    let arguments = [&["report", TINY, "--json", "-o", text(&out)][..], &POLICIES].concat();
    let output = vramlab(&arguments);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["bytes"], fs::metadata(&out).expect("the page").len());
    assert_eq!(told["runs"], serde_json::json!(["tiny"]));
    assert_eq!(told["views"].as_array().expect("a list").len(), 2);
    let printed = vramlab(&[&["report", TINY, "-o", "-"][..], &POLICIES].concat());
    assert_eq!(
        printed.stdout,
        fs::read(&out).expect("the page"),
        "`-` prints the same page"
    );
}
