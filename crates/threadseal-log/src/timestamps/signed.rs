//! Who signed a token, and whether the signature holds (RFC 5652 §5, RFC 3161 §2.4.2, RFC 5816).
//!
//! ```text
//! ContentInfo ─► SignedData ─► TSTInfo                    what is signed
//!                    │            ▲ digest
//!                    ├─► one SignerInfo ─► signed attributes: content type, digest, which certificate
//!                    └─► certificates ──► the signer's ─► EKU ─► chain to a pinned root, at the time of the token
//! ```
//! The certificates come with the token and prove nothing alone. Neither lists of revoked
//! certificates nor OCSP are asked. A reader must learn elsewhere that an authority was
//! compromised, and remove its root.

use crate::timestamps::asn1::{SigningCertificate, SigningCertificateV2};
use crate::timestamps::ecdsa::{P256_SHA512, P384_SHA512};
use crate::timestamps::response::{NotStamped, SHA_256};
use cms::cert::CertificateChoices;
use cms::content_info::ContentInfo;
use cms::signed_data::{SignedData, SignerIdentifier, SignerInfo};
use der::asn1::{ObjectIdentifier, OctetString};
use der::{Any, Encode};
use ring::digest::{self, Algorithm};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use std::time::Duration;
use threadseal_core::time::Timestamp;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring as algorithms};
use x509_cert::Certificate;
use x509_cert::attr::Attribute;
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectKeyIdentifier};
use x509_cert::spki::AlgorithmIdentifierOwned;

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const TST_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const SIGNING_CERTIFICATE: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.2.12");
const SIGNING_CERTIFICATE_V2: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.2.47");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const TIME_STAMPING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8");

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

type Verification = &'static dyn SignatureVerificationAlgorithm;

/// A digest function that a token may be signed with, and what goes with it.
struct Hash {
    oid: ObjectIdentifier,
    algorithm: &'static Algorithm,
    /// Names of signatures over it: RSA PKCS #1 v1.5, ECDSA.
    signatures: [ObjectIdentifier; 2],
    verifications: &'static [Verification; 3],
    /// RSASSA-PSS with MGF1 over the same function and a salt of its length; what else could stand there does not verify.
    pss: &'static Verification,
}

static HASHES: [Hash; 3] = [
    Hash {
        oid: SHA_256,
        algorithm: &digest::SHA256,
        signatures: [
            ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11"),
            ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2"),
        ],
        verifications: &[
            algorithms::RSA_PKCS1_2048_8192_SHA256,
            algorithms::ECDSA_P256_SHA256,
            algorithms::ECDSA_P384_SHA256,
        ],
        pss: &algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    },
    Hash {
        oid: ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2"),
        algorithm: &digest::SHA384,
        signatures: [
            ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12"),
            ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3"),
        ],
        verifications: &[
            algorithms::RSA_PKCS1_2048_8192_SHA384,
            algorithms::ECDSA_P256_SHA384,
            algorithms::ECDSA_P384_SHA384,
        ],
        pss: &algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    },
    Hash {
        oid: ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3"),
        algorithm: &digest::SHA512,
        signatures: [
            ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13"),
            ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4"),
        ],
        verifications: &[
            algorithms::RSA_PKCS1_2048_8192_SHA512,
            P256_SHA512,
            P384_SHA512,
        ],
        pss: &algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
    },
];

/// A token whose signature holds under a certificate that came with it, which is not trusted yet.
pub(super) struct Signed {
    /// The DER of the `TSTInfo`.
    pub(super) info: Vec<u8>,
    signer: Certificate,
    others: Vec<CertificateDer<'static>>,
}

/// Checks everything of a token that needs no trust.
pub(super) fn open(token: &Any) -> Result<Signed, NotStamped> {
    let content: ContentInfo = token.decode_as().map_err(|_| malformed("token"))?;
    if content.content_type != SIGNED_DATA {
        return Err(malformed("token, which is not signed data"));
    }
    let signed: SignedData = content
        .content
        .decode_as()
        .map_err(|_| malformed("signed data"))?;
    let inner = &signed.encap_content_info;
    if inner.econtent_type != TST_INFO {
        return Err(malformed("content, which is not TSTInfo"));
    }
    let info = inner.econtent.as_ref().ok_or(malformed("content"))?;
    let info: OctetString = info.decode_as().map_err(|_| malformed("content"))?;
    // RFC 3161 §2.4.2: no signature but that of the authority.
    let [by] = signed.signer_infos.0.as_slice() else {
        return Err(malformed("signature: there is not exactly one"));
    };
    let choices = signed.certificates.iter().flat_map(|set| set.0.iter());
    let all: Vec<&Certificate> = choices
        .filter_map(|choice| match choice {
            CertificateChoices::Certificate(certificate) => Some(certificate),
            CertificateChoices::Other(_) => None,
        })
        .collect();
    let mut named = all.iter().filter(|certificate| names(&by.sid, certificate));
    let (Some(signer), None) = (named.next(), named.next()) else {
        return Err(NotStamped::Unfit(
            "the token does not contain the one certificate that it names".to_owned(),
        ));
    };
    check_signature(by, info.as_bytes(), signer)?;
    let others = all.iter().filter(|other| other != &signer);
    let others = others.map(|other| Ok(to_der(*other)?.into()));
    Ok(Signed {
        info: info.as_bytes().to_vec(),
        signer: (*signer).clone(),
        others: others.collect::<Result<_, NotStamped>>()?,
    })
}

impl Signed {
    /// Checks that the signer was allowed to stamp at `time` by one of `roots`.
    pub(super) fn check_chain(
        &self,
        roots: &[CertificateDer<'_>],
        time: Timestamp,
    ) -> Result<(), NotStamped> {
        check_usage(&self.signer)?;
        let der: CertificateDer<'_> = to_der(&self.signer)?.into();
        let unfit = |error: webpki::Error| NotStamped::Unfit(format!("its certificate: {error}"));
        let signer = EndEntityCert::try_from(&der).map_err(unfit)?;
        let anchors = roots.iter().map(anchor_from_trusted_cert);
        let anchors = anchors.collect::<Result<Vec<_>, _>>().map_err(unfit)?;
        let seconds = Duration::from_micros(time.as_micros());
        let known = [webpki::ALL_VERIFICATION_ALGS, &[P256_SHA512, P384_SHA512]].concat();
        signer
            .verify_for_usage(
                &known,
                &anchors,
                &self.others,
                UnixTime::since_unix_epoch(seconds),
                // The signer's own was looked at above; those between it and the root may leave it out.
                KeyUsage::required_if_present(TIME_STAMPING.as_bytes()),
                None,
                None,
            )
            .map(|_| ())
            .map_err(|error| NotStamped::Untrusted(error.to_string()))
    }
}

/// Is it this certificate that a signer identifier means?
fn names(sid: &SignerIdentifier, certificate: &Certificate) -> bool {
    let certificate = &certificate.tbs_certificate;
    match sid {
        SignerIdentifier::IssuerAndSerialNumber(named) => {
            named.issuer == certificate.issuer && named.serial_number == certificate.serial_number
        }
        SignerIdentifier::SubjectKeyIdentifier(named) => {
            let own = certificate.get::<SubjectKeyIdentifier>();
            matches!(own, Ok(Some((_, own))) if own == *named)
        }
    }
}

fn check_signature(by: &SignerInfo, info: &[u8], signer: &Certificate) -> Result<(), NotStamped> {
    let known = HASHES.iter().find(|hash| hash.oid == by.digest_alg.oid);
    let hash = known.ok_or_else(|| unknown("digest", by.digest_alg.oid))?;
    let verifications = verifications(&by.signature_algorithm, hash)?;
    let attributes = by.signed_attrs.as_ref().ok_or(malformed("attributes"))?;
    let attributes_list: Vec<&Attribute> = attributes.iter().collect();
    let kind: ObjectIdentifier = decode(one(&attributes_list, CONTENT_TYPE)?)?;
    let digested: OctetString = decode(one(&attributes_list, MESSAGE_DIGEST)?)?;
    if kind != TST_INFO || digested.as_bytes() != digest::digest(hash.algorithm, info).as_ref() {
        return Err(NotStamped::Forged("the signature covers other content"));
    }
    let der = to_der(signer)?;
    check_signing_certificate(&attributes_list, &der)?;
    // RFC 5652 §5.4: what is signed is their DER as a set, not as it is tagged in the token.
    let message = to_der(attributes)?;
    let der: CertificateDer<'_> = der.into();
    let signer = EndEntityCert::try_from(&der)
        .map_err(|error| NotStamped::Unfit(format!("its certificate: {error}")))?;
    let holds = |verification: &Verification| {
        let signature = by.signature.as_bytes();
        signer
            .verify_signature(*verification, &message, signature)
            .is_ok()
    };
    match verifications.iter().any(holds) {
        true => Ok(()),
        false => Err(NotStamped::Forged("the signature is not valid")),
    }
}

/// What verifies signatures of this name over this digest.
fn verifications(
    how: &AlgorithmIdentifierOwned,
    hash: &Hash,
) -> Result<&'static [Verification], NotStamped> {
    if how.oid == RSA || hash.signatures.contains(&how.oid) {
        return Ok(hash.verifications);
    }
    let named = to_der(how)?;
    // Behind the tag and the length of the sequence.
    let is_pss = how.oid == RSA_PSS && named.ends_with(&hash.pss.signature_alg_id());
    match is_pss {
        true => Ok(std::slice::from_ref(hash.pss)),
        false => Err(unknown("signature", how.oid)),
    }
}

/// The attributes must say which certificate signed: else one of the same key, with other rights, would do.
fn check_signing_certificate(attributes: &[&Attribute], der: &[u8]) -> Result<(), NotStamped> {
    let has = |oid| attributes.iter().any(|attribute| attribute.oid == oid);
    let (old, new) = (has(SIGNING_CERTIFICATE), has(SIGNING_CERTIFICATE_V2));
    if !old && !new {
        return Err(malformed(
            "attributes: none names the certificate that signed",
        ));
    }
    let mut same = true;
    if new {
        let said: SigningCertificateV2 = decode(one(attributes, SIGNING_CERTIFICATE_V2)?)?;
        let first = said.certs.first().ok_or(malformed("signing certificate"))?;
        let oid = first
            .hash_algorithm
            .as_ref()
            .map_or(SHA_256, |named| named.oid);
        let known = HASHES.iter().find(|hash| hash.oid == oid);
        let hash = known.ok_or_else(|| unknown("digest", oid))?;
        same &= first.cert_hash.as_bytes() == digest::digest(hash.algorithm, der).as_ref();
    }
    if old {
        let said: SigningCertificate = decode(one(attributes, SIGNING_CERTIFICATE)?)?;
        let first = said.certs.first().ok_or(malformed("signing certificate"))?;
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, der);
        same &= first.cert_hash.as_bytes() == digest.as_ref();
    }
    match same {
        true => Ok(()),
        false => Err(NotStamped::Forged(
            "the attributes name another certificate",
        )),
    }
}

/// RFC 3161 §2.3: the certificate is for time stamps and nothing else, and a verifier that does not know this must refuse it.
fn check_usage(signer: &Certificate) -> Result<(), NotStamped> {
    let extensions = signer.tbs_certificate.extensions.iter().flatten();
    let mut usages = extensions.filter(|extension| extension.extn_id == EXTENDED_KEY_USAGE);
    let fit = match (usages.next(), usages.next()) {
        (Some(usage), None) => {
            let purposes: Result<ExtendedKeyUsage, _> =
                der::Decode::from_der(usage.extn_value.as_bytes());
            usage.critical && purposes.is_ok_and(|purposes| purposes.0 == [TIME_STAMPING])
        }
        _ => false,
    };
    match fit {
        true => Ok(()),
        false => Err(NotStamped::Unfit(
            "its certificate is not for time stamps alone (RFC 3161 §2.3)".to_owned(),
        )),
    }
}

/// The one value of the one attribute of this type.
fn one<'a>(attributes: &[&'a Attribute], oid: ObjectIdentifier) -> Result<&'a Any, NotStamped> {
    let mut found = attributes.iter().filter(|attribute| attribute.oid == oid);
    match (found.next(), found.next()) {
        (Some(attribute), None) => match attribute.values.as_slice() {
            [value] => Ok(value),
            _ => Err(malformed("attributes: one does not have exactly one value")),
        },
        _ => Err(malformed("attributes: one does not occur exactly once")),
    }
}

fn decode<'a, T>(value: &'a Any) -> Result<T, NotStamped>
where
    T: der::Choice<'a> + der::DecodeValue<'a>,
{
    value.decode_as().map_err(|_| malformed("attribute"))
}

fn to_der(value: &impl Encode) -> Result<Vec<u8>, NotStamped> {
    value.to_der().map_err(|_| malformed("certificate"))
}

fn malformed(what: &'static str) -> NotStamped {
    NotStamped::Malformed(what)
}

fn unknown(what: &str, oid: ObjectIdentifier) -> NotStamped {
    NotStamped::Unfit(format!("the {what} algorithm {oid} is not known here"))
}
