//! Opens ZIP archives within bounds. Inspect writes its logs (`.eval`) in this form.
//!
//! Members are stored, deflated (method 8), or compressed by Zstandard (method 93, since 2026). The
//! sizes in an archive are not trusted. A member is unpacked up to the remaining bound, and must
//! then have the size and the CRC-32 of its entry. All members together have at most
//! [`MAX_SOURCE_BYTES`]. One member has at most [`MAX_ARCHIVE_RATIO`] bytes for each byte of the
//! archive. An archive has at most [`MAX_ARCHIVE_MEMBERS`] members.
//!
//! Two members of one name, and members that share bytes, are refused. Readers could disagree on
//! which member counts, and shared bytes would be unpacked again for every member.

use crate::Member;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_with_limit};
use ruzstd::decoding::StreamingDecoder;
use std::io::{Cursor, Read};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{
    MAX_ARCHIVE_MEMBERS, MAX_ARCHIVE_RATIO, MAX_ARCHIVE_WINDOW, MAX_SOURCE_BYTES,
};
use zip::{CompressionMethod, ZipArchive};

const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// Whether `bytes` begin as an archive does.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(LOCAL_HEADER)
}

/// All files of an archive, in the order of its directory.
///
/// # Errors
/// [`ErrorKind::Limit`] beyond a bound. [`ErrorKind::InvalidInput`] if `bytes` are not an archive,
/// contradict themselves, or use an unknown packing.
pub fn members(bytes: &[u8]) -> Result<Vec<Member>, Error> {
    let archive = ZipArchive::new(Cursor::new(bytes));
    let mut archive = archive.map_err(|error| invalid("archive", &error))?;
    if archive.len() > MAX_ARCHIVE_MEMBERS {
        let message = format!("archive has more than {MAX_ARCHIVE_MEMBERS} members");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    if archive.has_duplicate_names() {
        return Err(invalid("archive", &"has two members of one name"));
    }
    let overlap = archive.has_overlapping_entries();
    if overlap.map_err(|error| invalid("archive", &error))? {
        return Err(invalid("archive", &"has members that share bytes"));
    }
    let mut room = MAX_SOURCE_BYTES;
    let mut members = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index);
        let mut entry = entry.map_err(|error| invalid(&format!("member {index}"), &error))?;
        let name = entry
            .name()
            .map_err(|error| invalid(&format!("member {index}"), &error))?;
        let name = name.into_owned();
        if entry.is_dir() {
            continue;
        }
        if entry.encrypted() {
            return Err(invalid(&name, &"is encrypted"));
        }
        let (method, size, crc) = (entry.compression(), entry.size(), entry.crc32());
        let mut packed = Vec::new();
        entry
            .read_to_end(&mut packed)
            .map_err(|error| invalid(&name, &error))?;
        let limit = room.min(packed.len().saturating_mul(MAX_ARCHIVE_RATIO));
        let unpacked = unpack(&name, method, packed, limit)?;
        if u64::try_from(unpacked.len()) != Ok(size) || crc32fast::hash(&unpacked) != crc {
            return Err(invalid(
                &name,
                &"has another size or CRC-32 than the archive states",
            ));
        }
        room -= unpacked.len();
        members.push(Member {
            name,
            bytes: unpacked,
        });
    }
    Ok(members)
}

/// Unpacks at most `limit` bytes.
fn unpack(
    name: &str,
    method: CompressionMethod,
    packed: Vec<u8>,
    limit: usize,
) -> Result<Vec<u8>, Error> {
    let too_large = || {
        let message = format!("{name}: unpacks to more than {limit} bytes");
        Error::new(ErrorKind::Limit, message)
    };
    match method {
        CompressionMethod::STORE if packed.len() <= limit => Ok(packed),
        CompressionMethod::STORE => Err(too_large()),
        CompressionMethod::DEFLATE => {
            let unpacked = decompress_to_vec_with_limit(&packed, limit);
            unpacked.map_err(|error| match error.status {
                TINFLStatus::HasMoreOutput => too_large(),
                _ => invalid(name, &error),
            })
        }
        CompressionMethod::ZSTD => {
            let mut rest = packed.as_slice();
            let mut unpacked = Vec::new();
            while !rest.is_empty() {
                let frame =
                    StreamingDecoder::new_with_max_window_size(&mut rest, MAX_ARCHIVE_WINDOW);
                let frame = frame.map_err(|error| invalid(name, &error))?;
                let room = u64::try_from(limit - unpacked.len()).unwrap_or(u64::MAX);
                let mut frame = frame.take(room.saturating_add(1));
                frame
                    .read_to_end(&mut unpacked)
                    .map_err(|error| invalid(name, &error))?;
                if unpacked.len() > limit {
                    return Err(too_large());
                }
            }
            Ok(unpacked)
        }
        other => Err(invalid(
            name,
            &format!("is packed by an unknown method ({other:?})"),
        )),
    }
}

fn invalid(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec as zstd};

    struct Entry {
        name: &'static str,
        method: u16,
        packed: Vec<u8>,
        size: usize,
        crc: u32,
    }

    fn entry(name: &'static str, method: u16, bytes: &[u8]) -> Entry {
        let packed = match method {
            8 => compress_to_vec(bytes, 6),
            93 => zstd(bytes, CompressionLevel::Fastest),
            _ => bytes.to_vec(),
        };
        Entry {
            name,
            method,
            packed,
            size: bytes.len(),
            crc: crc32fast::hash(bytes),
        }
    }

    /// An archive exactly as the ZIP specification defines it (APPNOTE 6.3.10, 4.3.7, 4.3.12,
    /// 4.3.16).
    fn archive(entries: &[Entry]) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        let u32le = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
        for entry in entries {
            let offset = u32le(out.len());
            let mut common = Vec::new();
            common.extend([20, 0, 0, 0]);
            common.extend(entry.method.to_le_bytes());
            common.extend([0, 0, 0x21, 0]);
            common.extend(entry.crc.to_le_bytes());
            common.extend(u32le(entry.packed.len()));
            common.extend(u32le(entry.size));
            common.extend(u16::try_from(entry.name.len()).unwrap().to_le_bytes());
            common.extend([0, 0]);
            out.extend(LOCAL_HEADER);
            out.extend(&common);
            out.extend(entry.name.as_bytes());
            out.extend(&entry.packed);
            directory.extend(b"PK\x01\x02\x14\x00");
            directory.extend(&common);
            directory.extend([0; 10]);
            directory.extend(offset);
            directory.extend(entry.name.as_bytes());
        }
        let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
        let start = u32le(out.len());
        out.extend(&directory);
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend(count);
        out.extend(count);
        out.extend(u32le(directory.len()));
        out.extend(start);
        out.extend([0, 0]);
        out
    }

    #[test]
    fn members_of_every_method_come_out_as_they_went_in() {
        let text = b"{\"a\":\"".repeat(100);
        let bytes = archive(&[
            entry("s", 0, &text),
            entry("d/e", 8, &text),
            entry("z", 93, &text),
            entry("n", 8, b""),
        ]);
        assert!(is_archive(&bytes));
        let members = members(&bytes).unwrap();
        let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["s", "d/e", "z", "n"]);
        assert!(members[..3].iter().all(|member| member.bytes == text));
    }

    // T-SCR-27
    #[test]
    fn a_member_that_unpacks_to_too_much_is_refused() {
        for method in [8, 93] {
            let bomb = vec![0; 1 << 20];
            let mut bomb = entry("bomb", method, &bomb);
            bomb.size = 10;
            assert!(members(&archive(&[bomb])).is_err(), "{method}");
        }
        let packed = compress_to_vec(&vec![0; 4096], 9);
        assert!(unpack("x", CompressionMethod::DEFLATE, packed, 4095).is_err());
        let packed = zstd(&[0; 4096][..], CompressionLevel::Fastest);
        assert!(unpack("x", CompressionMethod::ZSTD, packed.clone(), 4095).is_err());
        assert_eq!(
            unpack("x", CompressionMethod::ZSTD, packed, 4096)
                .unwrap()
                .len(),
            4096
        );
        assert!(unpack("x", CompressionMethod::STORE, vec![0; 2], 1).is_err());
    }

    #[test]
    fn an_archive_that_contradicts_itself_is_refused() {
        let mut wrong = entry("x", 8, b"text");
        wrong.crc ^= 1;
        assert!(members(&archive(&[wrong])).is_err());
        let mut wrong = entry("x", 0, b"text");
        wrong.method = 12;
        assert!(members(&archive(&[wrong])).is_err());
        assert!(members(b"PK\x03\x04 and no more").is_err());
        assert!(members(b"").is_err());
    }

    // T-SCR-27
    #[test]
    fn members_of_one_name_or_with_shared_bytes_are_refused() {
        let twice = archive(&[entry("x", 0, b"one"), entry("x", 0, b"two")]);
        let message = members(&twice).unwrap_err().to_string();
        assert!(message.contains("two members of one name"), "{message}");
        let mut shared = archive(&[entry("x", 8, b"text"), entry("y", 8, b"text")]);
        // The second entry of the directory points to the first member.
        let second = shared.windows(4).rposition(|four| four == b"PK\x01\x02");
        let offset = second.unwrap() + 42;
        shared[offset..offset + 4].fill(0);
        let message = members(&shared).unwrap_err().to_string();
        assert!(message.contains("share bytes"), "{message}");
    }

    #[test]
    fn an_encrypted_member_is_refused() {
        let mut bytes = archive(&[entry("x", 0, b"text")]);
        for flags in [
            6,
            bytes
                .windows(4)
                .rposition(|four| four == b"PK\x01\x02")
                .unwrap()
                + 8,
        ] {
            bytes[flags] |= 1;
        }
        let message = members(&bytes).unwrap_err().to_string();
        assert!(message.contains("is encrypted"), "{message}");
    }

    #[test]
    fn every_cut_of_an_archive_is_refused_or_read_without_panic() {
        let whole = archive(&[entry("a", 8, b"some text"), entry("b", 93, b"some text")]);
        for end in 0..whole.len() {
            assert!(members(&whole[..end]).is_err(), "{end}");
        }
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 0x55;
            let _ = members(&flipped);
        }
    }
}
