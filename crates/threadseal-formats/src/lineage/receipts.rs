//! igor's receipts: the charges that a node claims for an agent (`spec/lineage.md` §9).
//!
//! ```text
//! signed   u32 n ‖ agent[n]  u32 n ‖ node[n]  first tick u64  last tick u64          little-endian
//!          cost i64  budget after i64  time i64 (ns)
//! receipt  signed ‖ u32 n ‖ signature[n]
//! file     u32 count { u32 n ‖ receipt[n] }
//! node     libp2p peer id; of an Ed25519 key: base58btc( 00 24 08 01 12 20 key[32] ), "12D3KooW…"
//! ```
//! The node's own key signs, not the agent's. A receipt names no checkpoint and no other receipt;
//! in v0x05 the checkpoint names the file. igor reserves memory for any count that a file claims.
//! Here a count that cannot fit in the available bytes is refused before memory is reserved.

use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signature, SignatureError};
use threadseal_core::limits::MAX_RECEIPTS_BYTES;

/// Bytes of the shortest receipt with its length: no texts, no signature.
const SHORTEST: usize = 4 + 4 + 4 + 5 * 8 + 4;
/// The multihash "identity" of 36 bytes that follow: a protobuf of key type 1 and 32 bytes of key.
const PEER_ID_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
/// Base58 digits of such a peer id.
const PEER_ID_LENGTH: usize = 52;

/// A statement that a node ran an agent for a price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The agent, by the node's name for it.
    pub agent: String,
    /// The node: its libp2p peer id.
    pub node: String,
    /// The first tick that was charged.
    pub first_tick: u64,
    /// The last tick that was charged.
    pub last_tick: u64,
    /// Microcents.
    pub cost: i64,
    /// Microcents left.
    pub budget_after: i64,
    /// Nanoseconds since 1970, by the node's clock.
    pub time: i64,
    /// As raw bytes; a valid one has 64 bytes.
    pub signature: Vec<u8>,
}

impl Receipt {
    /// Did `node` sign it?
    ///
    /// # Errors
    /// [`SignatureError`] when not.
    pub fn verify(&self, node: &PublicKey) -> Result<(), SignatureError> {
        let signature = Signature::from_slice(&self.signature).ok_or(SignatureError)?;
        node.verify(&self.signed(), &signature)
    }

    /// The key in the node's name; `None` where the name is another digest, or no peer id.
    pub fn node_key(&self) -> Option<PublicKey> {
        // Decoding is quadratic: the length is checked before it.
        if self.node.len() != PEER_ID_LENGTH {
            return None;
        }
        let bytes = bs58::decode(&self.node).into_vec().ok()?;
        let key = bytes.strip_prefix(&PEER_ID_PREFIX)?;
        PublicKey::from_bytes(key.try_into().ok()?).ok()
    }

    fn signed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SHORTEST + self.agent.len() + self.node.len());
        for text in [&self.agent, &self.node] {
            push_sized(&mut bytes, text.as_bytes());
        }
        bytes.extend(self.first_tick.to_le_bytes());
        bytes.extend(self.last_tick.to_le_bytes());
        for value in [self.cost, self.budget_after, self.time] {
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.signed();
        push_sized(&mut bytes, &self.signature);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let receipt = Self {
            agent: rest.text()?,
            node: rest.text()?,
            first_tick: rest.u64()?,
            last_tick: rest.u64()?,
            cost: rest.u64()?.cast_signed(),
            budget_after: rest.u64()?.cast_signed(),
            time: rest.u64()?.cast_signed(),
            signature: rest.sized()?.to_vec(),
        };
        rest.0.is_empty().then_some(receipt)
    }
}

/// Reads a file of receipts. [`Receipt::verify`] checks which of them hold.
///
/// # Errors
/// Kind `Limit` beyond [`MAX_RECEIPTS_BYTES`]. `InvalidInput` where a length does not fit, or a
/// text is not UTF-8. Also for bytes after a receipt or the last of them, which igor ignores.
pub fn parse_receipts(file: &[u8]) -> Result<Vec<Receipt>, Error> {
    if file.len() > MAX_RECEIPTS_BYTES {
        let text = format!("a file of receipts has at most {MAX_RECEIPTS_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    let mut rest = Rest(file);
    let count = rest
        .u32()
        .filter(|count| *count <= rest.0.len() / SHORTEST)
        .ok_or_else(|| Error::invalid("the count of the receipts does not fit their bytes"))?;
    let mut receipts = Vec::with_capacity(count);
    for number in 0..count {
        let receipt = rest.sized().and_then(Receipt::parse);
        receipts.push(
            receipt.ok_or_else(|| Error::invalid(format!("receipt {number} cannot be read")))?,
        );
    }
    if !rest.0.is_empty() {
        return Err(Error::invalid("bytes follow the last receipt"));
    }
    Ok(receipts)
}

/// The file of these receipts, as igor writes it.
pub fn write_receipts(receipts: &[Receipt]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(length(receipts.len()));
    for receipt in receipts {
        push_sized(&mut file, &receipt.encode());
    }
    file
}

fn push_sized(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(length(part.len()));
    bytes.extend(part);
}

fn length(of: usize) -> [u8; 4] {
    u32::try_from(of).unwrap_or(u32::MAX).to_le_bytes()
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.sized()?).ok()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use threadseal_core::testing::key;

    fn peer_id(key: &PublicKey) -> String {
        let bytes = [PEER_ID_PREFIX.as_slice(), key.as_bytes()].concat();
        bs58::encode(bytes).into_string()
    }

    fn receipt(agent: &str) -> Receipt {
        Receipt {
            agent: agent.to_owned(),
            node: peer_id(&key(5)),
            first_tick: 1,
            last_tick: 5,
            cost: 1370,
            budget_after: 998_630,
            time: 1_700_000_000_000_000_000,
            signature: Vec::new(),
        }
    }

    #[test]
    fn receipts_come_back_from_their_file() {
        for receipts in [vec![], vec![receipt("a")], vec![receipt("é"), receipt("")]] {
            let file = write_receipts(&receipts);
            assert_eq!(parse_receipts(&file), Ok(receipts));
        }
    }

    #[test]
    fn a_nodes_name_is_its_key() {
        let receipt = receipt("a");
        assert!(receipt.node.starts_with("12D3KooW"));
        assert_eq!(receipt.node.len(), PEER_ID_LENGTH);
        assert_eq!(receipt.node_key(), Some(key(5)));
        for name in [
            "",
            "12D3KooW",
            "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
        ] {
            let other = Receipt {
                node: name.to_owned(),
                ..receipt.clone()
            };
            assert_eq!(other.node_key(), None, "{name}");
        }
    }

    // T-LIN-17
    #[test]
    fn a_count_that_cannot_fit_is_refused_before_anything_is_reserved() {
        assert!(parse_receipts(&[0xff; 4]).is_err());
        assert!(parse_receipts(&[0xff, 0xff, 0xff, 0xff, 0, 0]).is_err());
        let mut file = write_receipts(&[receipt("a")]);
        file[0] = 2;
        assert!(parse_receipts(&file).is_err());
        // A length inside a receipt.
        file[0] = 1;
        file[11] = 0x7f;
        assert!(parse_receipts(&file).is_err());
    }

    #[test]
    fn every_cut_and_every_addition_is_refused() {
        let file = write_receipts(&[receipt("a"), receipt("b")]);
        for length in 0..file.len() {
            assert!(parse_receipts(&file[..length]).is_err(), "{length}");
        }
        assert!(parse_receipts(&[file.as_slice(), &[0]].concat()).is_err());
        let mut inside = write_receipts(&[receipt("a")]);
        inside[4] += 1;
        inside.push(0);
        assert!(parse_receipts(&inside).is_err(), "behind the signature");
    }

    #[test]
    fn a_receipt_holds_under_its_nodes_key_and_with_nothing_changed() {
        let file = include_bytes!("../../../../testkit/lineage/receipts.bin");
        let receipts = parse_receipts(file).unwrap();
        assert_eq!(receipts.len(), 2);
        let holds = |receipt: &Receipt| {
            let node = receipt.node_key();
            node.is_some_and(|node| receipt.verify(&node).is_ok())
        };
        for receipt in &receipts {
            assert_eq!(receipt.node, peer_id(&key(5)));
            assert!(holds(receipt));
            assert!(receipt.verify(&key(6)).is_err());
        }
        for at in 0..file.len() {
            let mut changed = file.to_vec();
            changed[at] ^= 1;
            let all_hold = parse_receipts(&changed).is_ok_and(|read| read.iter().all(holds));
            assert!(!all_hold, "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_as_it_was(file in any::<Vec<u8>>()) {
            if let Ok(receipts) = parse_receipts(&file) {
                prop_assert_eq!(write_receipts(&receipts), file);
            }
        }
    }
}
