//! Responses that an authority of `openssl` made, and what becomes of them when anything is different.

use super::*;
use crate::timestamps::asn1::{Accuracy, MessageImprint, TstInfo};
use crate::timestamps::openssl::{FIT, OpenSsl};
use der::asn1::{Any, Int};
use der::{Encode, Tag};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use threadseal_store::clock::{Clock as _, SystemClock};

const MESSAGE: &[u8] = b"threadseal.log/00\n1\n\n";
const NONCE: Nonce = [0, 0x80, 1, 2, 3, 4, 5, 6];
const DAY: u64 = 86_400;

impl OpenSsl {
    /// Puts another certificate between the root and the signer's.
    fn insert(&self) {
        self.request("between", "P-256", "-subj /CN=between");
        self.issue(
            "root",
            "between",
            "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n",
        );
        self.request("tsa", "P-256", "-subj /CN=tsa");
        self.issue("between", "tsa", FIT);
    }

    /// A granted response with any content that is signed as a token.
    fn sign(&self, info: &[u8], more: &str) -> Vec<u8> {
        fs::write(self.folder.join("info"), info).unwrap();
        self.run(&format!(
            "cms -sign -binary -nodetach -nosmimecap -econtent_type 1.2.840.113549.1.9.16.1.4 -in info \
             -signer tsa.pem -inkey tsa.key -md sha256 -outform DER -out token {more}"
        ));
        granted(&fs::read(self.folder.join("token")).unwrap())
    }
}

/// `SEQUENCE { SEQUENCE { INTEGER 0 }, token }`.
fn granted(token: &[u8]) -> Vec<u8> {
    let inner = [&[0x30, 3, 2, 1, 0], token].concat();
    let length = u16::try_from(inner.len()).unwrap().to_be_bytes();
    [&[0x30, 0x82, length[0], length[1]], inner.as_slice()].concat()
}

fn tsa(folder: &Path, extensions: &str) -> (OpenSsl, Authority) {
    let openssl = OpenSsl::new(folder, "P-256", "sha256", extensions);
    let authority = Authority::new("http://localhost/", &openssl.root()).unwrap();
    (openssl, authority)
}

fn now() -> u64 {
    SystemClock.now().unwrap().as_micros() / 1_000_000
}

/// What an authority would sign of `MESSAGE` at `time`.
fn info(time: u64) -> TstInfo {
    let iso = Timestamp::from_micros(time * 1_000_000)
        .unwrap()
        .to_iso_seconds();
    let digits: String = iso.chars().filter(char::is_ascii_digit).collect();
    TstInfo {
        version: 1,
        policy: ObjectIdentifier::new_unwrap("1.2.3.4.1"),
        message_imprint: MessageImprint {
            hash_algorithm: AlgorithmIdentifierOwned {
                oid: SHA_256,
                parameters: None,
            },
            hashed_message: OctetString::new(Digest::of(MESSAGE).as_bytes().as_slice()).unwrap(),
        },
        serial_number: Int::new(&[7]).unwrap(),
        gen_time: Any::new(Tag::GeneralizedTime, format!("{digits}Z").into_bytes()).unwrap(),
        accuracy: None,
        ordering: false,
        nonce: Some(asn1::unsigned(NONCE).unwrap()),
        tsa: None,
        extensions: None,
    }
}

fn signed(openssl: &OpenSsl, info: &TstInfo) -> Vec<u8> {
    openssl.sign(&info.to_der().unwrap(), "-cades")
}

/// What the authority answers to a request for `MESSAGE`.
fn stamped(openssl: &OpenSsl) -> Vec<u8> {
    openssl.reply(&request(MESSAGE, NONCE).unwrap())
}

/// The verdict on a response to that request.
fn judge(response: &[u8], authority: &Authority) -> Result<TimeStamp, NotStamped> {
    verify(response, MESSAGE, authority, Some(NONCE))
}

/// How a stamp was refused, without the details.
fn refusal<T: fmt::Debug>(judged: Result<T, NotStamped>) -> &'static str {
    match judged.unwrap_err() {
        NotStamped::Malformed(_) => "malformed",
        NotStamped::Unfit(_) => "unfit",
        NotStamped::Untrusted(_) => "untrusted",
        other => panic!("{other:?}"),
    }
}

#[test]
fn stamps_by_each_algorithm_are_taken_as_openssl_takes_them() {
    let folder = TempDir::new().unwrap();
    let cases = [
        ("rsa:2048", "sha256"),
        ("rsa:2048", "sha384"),
        ("rsa:3072", "sha512"),
        ("P-256", "sha256"),
        ("P-256", "sha384"),
        ("P-384", "sha256"),
        ("P-384", "sha384"),
        ("P-256", "sha512"),
        ("P-384", "sha512"),
    ];
    for (number, (key, digest)) in cases.into_iter().enumerate() {
        let openssl = OpenSsl::new(&folder.path().join(number.to_string()), key, digest, FIT);
        let authority = Authority::new("https://tsa.example/", &openssl.root()).unwrap();
        let before = now();
        let response = stamped(&openssl);
        let stamp = judge(&response, &authority).unwrap();
        let seconds = stamp.time().as_micros() / 1_000_000;
        assert!((before..=now()).contains(&seconds), "{key} {digest}");
        let latest = stamp.latest().as_micros();
        assert_eq!(latest, stamp.time().as_micros() + 1_500_000);
        let second = stamp.latest_second().as_micros();
        assert_eq!(second, seconds * 1_000_000 + 2_000_000);
        assert!(openssl.takes(MESSAGE, &response), "{key} {digest}");
        assert_eq!(verify(&response, MESSAGE, &authority, None), Ok(stamp));
    }
}

/// `openssl ts` signs with PKCS #1 v1.5 alone, so `openssl cms` does here.
#[test]
fn stamps_by_rsa_pss_are_taken_where_one_digest_and_its_length_are_used_throughout() {
    let folder = TempDir::new().unwrap();
    let openssl = OpenSsl::new(folder.path(), "rsa:2048", "sha256", FIT);
    let authority = Authority::new("https://tsa.example/", &openssl.root()).unwrap();
    let info = info(now()).to_der().unwrap();
    let pss = |more: &str| {
        let how = format!("-cades -keyopt rsa_padding_mode:pss {more}");
        let response = openssl.sign(&info, &how);
        verify(&response, MESSAGE, &authority, None)
    };
    for digest in ["sha256", "sha384", "sha512"] {
        let stamp = pss(&format!("-md {digest} -keyopt rsa_pss_saltlen:digest"));
        assert!(stamp.is_ok(), "{digest}: {stamp:?}");
    }
    for other in [
        "-keyopt rsa_pss_saltlen:20",
        "-keyopt rsa_pss_saltlen:digest -keyopt rsa_mgf1_md:sha512",
    ] {
        assert_eq!(refusal(pss(other)), "unfit", "{other}");
    }
}

/// Certificates of the authority are signed with SHA-512, too.
#[test]
fn a_chain_signed_with_sha_512_is_followed() {
    let folder = TempDir::new().unwrap();
    for key in ["P-256", "P-384"] {
        let openssl = OpenSsl::new(&folder.path().join(key), key, "sha512", FIT);
        openssl.request("tsa", key, "-subj /CN=tsa");
        openssl.issue_by("sha512", "root", "tsa", FIT);
        let authority = Authority::new("https://tsa.example/", &openssl.root()).unwrap();
        let response = stamped(&openssl);
        let stamp = judge(&response, &authority);
        assert!(stamp.is_ok(), "{key}: {stamp:?}");
    }
}

// T-WIT-27
#[test]
fn a_stamp_of_other_bytes_or_for_another_request_is_none() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(folder.path(), FIT);
    let response = stamped(&openssl);
    let other = verify(&response, b"other", &authority, Some(NONCE));
    assert_eq!(other, Err(NotStamped::OtherMessage));
    let other = verify(&response, MESSAGE, &authority, Some([0; 8]));
    assert_eq!(other, Err(NotStamped::OtherNonce));
    let none = TstInfo {
        nonce: None,
        ..info(now())
    };
    let none = signed(&openssl, &none);
    assert!(verify(&none, MESSAGE, &authority, None).is_ok());
    let other = verify(&none, MESSAGE, &authority, Some(NONCE));
    assert_eq!(other, Err(NotStamped::OtherNonce));
}

// T-WIT-28
#[test]
fn a_stamp_by_another_root_is_none() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(&folder.path().join("a"), FIT);
    let (other, theirs) = tsa(&folder.path().join("b"), FIT);
    let response = stamped(&other);
    assert_eq!(refusal(judge(&response, &authority)), "untrusted");
    assert!(judge(&response, &theirs).is_ok());
    let both = [openssl.root(), other.root()].concat();
    let both = Authority::new("http://localhost/", &both).unwrap();
    assert!(judge(&response, &both).is_ok());
}

// T-WIT-28
#[test]
fn a_chain_over_another_certificate_is_followed() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(folder.path(), FIT);
    openssl.insert();
    let response = stamped(&openssl);
    assert!(judge(&response, &authority).is_ok());
    // Without the one between, nothing leads to the root.
    let alone = signed(&openssl, &info(now()));
    let judged = verify(&alone, MESSAGE, &authority, None);
    assert_eq!(refusal(judged), "untrusted");
}

// T-WIT-28
#[test]
fn a_certificate_that_is_not_for_time_stamps_alone_stamps_nothing() {
    let folder = TempDir::new().unwrap();
    for (number, extensions) in [
        "basicConstraints=CA:FALSE\n",
        "extendedKeyUsage=timeStamping\n",
        "extendedKeyUsage=critical,codeSigning\n",
        "extendedKeyUsage=critical,timeStamping,codeSigning\n",
        "extendedKeyUsage=critical,timeStamping\nbasicConstraints=critical,CA:TRUE\n",
    ]
    .into_iter()
    .enumerate()
    {
        let (openssl, authority) = tsa(&folder.path().join(number.to_string()), extensions);
        let response = signed(&openssl, &info(now()));
        let judged = verify(&response, MESSAGE, &authority, None);
        let refusal = refusal(judged);
        let is_so = ["unfit", "untrusted"].contains(&refusal);
        assert!(is_so, "{extensions}: {refusal}");
    }
}

/// The certificate counts if it was valid when it stamped, whenever that is looked at.
// T-WIT-28
#[test]
fn a_certificate_is_judged_at_the_time_of_the_stamp() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(folder.path(), FIT);
    let judged = |time| verify(&signed(&openssl, &info(time)), MESSAGE, &authority, None);
    assert!(judged(now()).is_ok());
    assert!(judged(now() + 29 * DAY).is_ok());
    for time in [now() + 31 * DAY, now() - DAY] {
        assert_eq!(refusal(judged(time)), "untrusted");
    }
}

// T-WIT-29
#[test]
fn what_is_signed_but_no_time_stamp_is_refused() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(folder.path(), FIT);
    let verify = |response: &[u8]| verify(response, MESSAGE, &authority, None);
    let verify_info = |info: &TstInfo| verify(&signed(&openssl, info));
    let good = info(now());
    let accuracy = |seconds, millis| TstInfo {
        accuracy: Some(Accuracy {
            seconds,
            millis: Some(millis),
            micros: None,
        }),
        ..good.clone()
    };
    let far = verify_info(&accuracy(Some(u32::MAX), 999)).unwrap();
    assert!(far.latest() > far.time());
    let wide = verify_info(&accuracy(None, 1000));
    assert_eq!(wide, Err(NotStamped::Malformed("accuracy")));
    let version = TstInfo {
        version: 2,
        ..good.clone()
    };
    let malformed = Err(NotStamped::Malformed("TSTInfo"));
    assert_eq!(verify_info(&version), malformed);
    let bytes = good.to_der().unwrap();
    let sign = |info: &[u8], how| verify(&openssl.sign(info, how));
    // Without the attribute that names the certificate; without a certificate; without attributes;
    // without readable content; signed twice.
    assert_eq!(refusal(sign(&bytes, "")), "malformed");
    assert_eq!(refusal(sign(&bytes, "-cades -nocerts")), "unfit");
    let bare = sign(&bytes, "-noattr");
    assert_eq!(bare, Err(NotStamped::Malformed("attributes")));
    assert_eq!(sign(b"no TSTInfo", "-cades"), malformed);
    let twice = sign(&bytes, "-cades -signer root.pem -inkey root.key");
    assert_eq!(refusal(twice), "malformed");
    assert!(sign(&bytes, "-cades -keyid").is_ok());
    // SEQUENCE { SEQUENCE { INTEGER 2, SEQUENCE { UTF8String "no" } } }
    let refused = verify(&[0x30, 11, 0x30, 9, 2, 1, 2, 0x30, 4, 0x0c, 2, b'n', b'o']);
    let text = "no".to_owned();
    assert_eq!(refused, Err(NotStamped::Refused { status: 2, text }));
    let long = verify(&vec![0; MAX_TIMESTAMP_BYTES + 1]);
    assert_eq!(long, Err(NotStamped::Malformed("length")));
}

/// Whatever byte is changed: it is no stamp any more, or the very same one.
// T-WIT-27
#[test]
fn no_change_of_a_response_makes_another_time_of_it() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(folder.path(), FIT);
    let mut response = stamped(&openssl);
    let stamp = judge(&response, &authority).unwrap();
    let mut still = 0;
    for at in 0..response.len() {
        for change in [0x01, 0x80, 0xff, 0x20] {
            response[at] ^= change;
            if let Ok(other) = judge(&response, &authority) {
                assert_eq!(other, stamp, "byte {at} ^ {change:#x}");
                still += 1;
            }
            response[at] ^= change;
        }
        assert!(verify(&response[..at], MESSAGE, &authority, None).is_err());
    }
    // Status "granted with modifications", and the unsigned lists of digests.
    assert!(still < 64, "{still}");
    response.push(0);
    assert!(verify(&response, MESSAGE, &authority, None).is_err());
}

#[test]
fn an_authority_is_an_address_and_roots() {
    let folder = TempDir::new().unwrap();
    let (openssl, authority) = tsa(folder.path(), FIT);
    let again = Authority::parse(authority.to_text().as_bytes()).unwrap();
    assert_eq!(again, authority);
    let pem = openssl.root();
    for url in "ftp://a/,http://,https:///path,http://a b/,http://a/\n,".split(',') {
        assert!(Authority::new(url, &pem).is_err(), "{url:?}");
    }
    assert!(Authority::new("http://a", b"").is_err());
    let no_der = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(Authority::new("http://a", no_der).is_err());
    assert!(Authority::new("http://a", &pem.repeat(17)).is_err());
    assert!(Authority::parse(&pem).is_err());
}
