//! Pages with hostile sessions, and hostile pages.

use super::*;
use crate::assets;

/// A log whose text holds everything that could be mistaken for the page's own.
fn hostile() -> LogBytes {
    let text = "</script><!--/parts--></pre></title>@@BOOT@@@@PARTS@@ <!--parts-->\n&amp;\r\0";
    LogBytes {
        log: format!("claude-code:{text}"),
        parent: None,
        role: Role::Log,
        bytes: text.as_bytes().to_vec(),
        seals: Some(b"seals".to_vec()),
        bodies: None,
    }
}

fn made(passphrase: Option<&[u8]>) -> Filled {
    let mut next = 0_u8;
    let mut random = |buffer: &mut [u8]| {
        for byte in buffer {
            next = next.wrapping_add(1);
            *byte = next;
        }
        Ok(())
    };
    let log = hostile();
    let text = std::str::from_utf8(&log.bytes).unwrap();
    let filling = Filling {
        name: &log.log,
        text,
        left_out: vec!["bodies".to_owned()],
        passphrase,
        random: &mut random,
    };
    fill(&assets::template(), std::slice::from_ref(&log), filling).unwrap()
}

fn nothing_beside(_: &str) -> Result<Vec<u8>, Error> {
    Err(Error::invalid("nothing is beside it"))
}

// T-VIEW-08
#[test]
fn a_page_gives_back_what_went_in_whatever_that_is() {
    for passphrase in [None, Some(b"a long passphrase".as_slice())] {
        let page = made(passphrase);
        assert!(page.files.is_empty());
        let read = PageFile::read(page.html.as_bytes()).unwrap();
        assert_eq!(read.frame, assets::frame());
        assert_eq!(read.is_locked(), passphrase.is_some());
        let opened = read.open(passphrase, &nothing_beside).unwrap();
        let log = hostile();
        assert_eq!(read.title, opened.title(passphrase.is_some()));
        assert_eq!(
            (&opened.logs[0].bytes, &opened.logs[0].seals),
            (&log.bytes, &log.seals)
        );
        if passphrase.is_none() {
            assert_eq!(
                read.text,
                String::from_utf8(log.bytes)
                    .unwrap()
                    .replace('\0', "\u{fffd}")
            );
        } else {
            assert!(
                !page.html.contains("claude-code"),
                "names are no less private than text"
            );
        }
    }
}

// T-VIEW-09
#[test]
fn a_changed_page_is_another_frame_or_refused() {
    let page = made(None).html;
    let frame = PageFile::read(page.as_bytes()).unwrap().frame;
    for (from, to) in [
        (
            "<main id=\"app\">",
            "<p>All is verified.</p><main id=\"app\">",
        ),
        (
            "<!--/parts-->\n",
            "<!--/parts-->\n<script>alert(1)</script>",
        ),
        ("script-src '", "script-src 'unsafe-inline' '"),
    ] {
        let changed = page.replacen(from, to, 1);
        assert_ne!(changed, page);
        assert_ne!(
            PageFile::read(changed.as_bytes()).unwrap().frame,
            frame,
            "{from}"
        );
    }
    let part = page.find(PART_OPEN).unwrap();
    for refused in [
        format!("{}<b>x</b>{}", &page[..part], &page[part..]),
        page.replacen("\"threadseal.page/1\"", "\"threadseal.page/9\"", 1),
        page.replacen("part-1\">", "part-0\">", 1),
        page.replacen("part-1\">", "part-7\">", 1),
        page.replacen("\"bytes\":5", "\"bytes\":6", 1),
        page.replacen("H4sI", "H4sJ", 1),
        page[..part].to_owned(),
    ] {
        let opened =
            PageFile::read(refused.as_bytes()).and_then(|page| page.open(None, &nothing_beside));
        assert!(opened.is_err());
    }
}

// T-VIEW-09
#[test]
fn a_wrong_passphrase_and_a_changed_part_open_nothing() {
    let page = made(Some(b"right")).html;
    let open = |page: &str, passphrase: &[u8]| {
        let read = PageFile::read(page.as_bytes()).unwrap();
        read.open(Some(passphrase), &nothing_beside)
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        open(&page, b"wrong").unwrap_err(),
        "the passphrase does not open it"
    );
    assert!(
        PageFile::read(page.as_bytes())
            .unwrap()
            .open(None, &nothing_beside)
            .is_err()
    );
    assert_eq!(
        open(&page.replace("part-0", "part-2"), b"right").unwrap_err(),
        "it lacks part-0"
    );
    let slow = page.replacen("\"iterations\":600000", "\"iterations\":4000000000", 1);
    assert!(open(&slow, b"right").is_err());
}

// T-VIEW-10
#[test]
fn a_bomb_is_no_larger_than_its_index_names_it() {
    let bomb = packed(&vec![0; 50 << 20]);
    let part = PartEntry {
        id: "part-0".to_owned(),
        log: "x".to_owned(),
        role: Role::Log,
        parent: None,
        bytes: 10,
        sha256: String::new(),
        file: None,
    };
    assert!(unpacked(&part, &bomb, None).is_err());
}

// T-VIEW-10
#[test]
fn the_name_of_a_file_beside_is_no_path() {
    for name in ["../../etc/passwd", "a/b", ".hidden", "a\\b"] {
        let index = format!(
            r#"{{"mode":"export","schema":"{SCHEMA}","lock":null,"index":{{"name":"x","left_out":[],"parts":[{{"id":"part-0","log":"x","role":"log","parent":null,"bytes":1,"sha256":"","file":{}}}]}}}}"#,
            serde_json::to_string(name).unwrap()
        );
        let page = filled(
            &assets::template(),
            &[String::new(), String::new(), index, String::new()],
        )
        .unwrap();
        let opened = PageFile::read(page.as_bytes())
            .unwrap()
            .open(None, &|_| Ok(vec![0]));
        assert_eq!(opened.unwrap_err().to_string(), "it lacks part-0", "{name}");
    }
}
