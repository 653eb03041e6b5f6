//! The files of the page, as `web/viewer` builds them: embedded, so that the program needs no folder beside it.
//!
//! Those with the ending `.gz` are sent compressed; every browser takes gzip. The module of WebAssembly is in them once,
//! for the page and for [`template`].

use std::borrow::Cow;
use threadseal_core::encoding::base64;

/// What the page's file has in place of what the page is and where its addresses begin.
const BOOT: &str = "@@BOOT@@";
/// What the template has in place of the module.
const WASM: &str = "@WASM@";

const PACKED_MODULE: &[u8] = include_bytes!("../assets/threadseal_wasm_bg.wasm.gz");
const EXPORT: &str = include_str!("../assets/export.html");
const FRAME: &str = include_str!("../assets/FRAME");

/// One file of the page.
#[derive(Debug)]
pub struct Asset {
    name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// Is it compressed with gzip?
    pub is_packed: bool,
    bytes: &'static [u8],
}

const fn packed(name: &'static str, kind: &'static str, bytes: &'static [u8]) -> Asset {
    Asset {
        name,
        kind,
        is_packed: true,
        bytes,
    }
}

const ASSETS: [Asset; 5] = [
    Asset {
        name: "",
        kind: "text/html; charset=utf-8",
        is_packed: false,
        bytes: include_bytes!("../assets/index.html"),
    },
    packed(
        "app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/app.js.gz"),
    ),
    packed(
        "worker.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/worker.js.gz"),
    ),
    packed(
        "style.css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/style.css.gz"),
    ),
    packed("threadseal_wasm_bg.wasm", "application/wasm", PACKED_MODULE),
];

/// The file of this name; the page itself has none.
pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

impl Asset {
    /// Its bytes, for a viewer whose addresses begin with `base`.
    pub fn bytes(&self, base: &str) -> Cow<'static, [u8]> {
        match std::str::from_utf8(self.bytes) {
            Ok(text) if self.name.is_empty() => {
                let boot = format!(r#"{{"mode":"serve","base":"{base}"}}"#);
                Cow::Owned(text.replacen(BOOT, &boot, 1).into_bytes())
            }
            _ => Cow::Borrowed(self.bytes),
        }
    }
}

/// The page of an export, with the places of a session still empty.
pub fn template() -> String {
    EXPORT.replacen(WASM, &base64(PACKED_MODULE), 1)
}

/// The SHA-256 of [`template`], in 64 hex digits.
pub fn frame() -> &'static str {
    FRAME.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::digest::Digest;

    #[test]
    fn the_frame_is_the_digest_of_the_template() {
        let template = template();
        assert_eq!(Digest::of(template.as_bytes()).to_hex(), frame());
        assert!(!template.contains(WASM));
    }

    #[test]
    fn the_page_knows_its_base_and_names_only_what_is_there() {
        let page = find("").unwrap().bytes("/0123/");
        let page = std::str::from_utf8(&page).unwrap();
        assert!(
            page.contains(r#"{"mode":"serve","base":"/0123/"}"#),
            "{page}"
        );
        for name in [
            "app.js",
            "worker.js",
            "style.css",
            "threadseal_wasm_bg.wasm",
        ] {
            let asset = find(name).unwrap();
            assert!(
                asset.is_packed && asset.bytes("/").starts_with(&[0x1f, 0x8b]),
                "{name}"
            );
        }
        assert!(find("index.html").is_none() && find("../Cargo.toml").is_none());
    }
}
