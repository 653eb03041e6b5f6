//! Secrets that the rules of `nosecrets-rules` miss, or match only in part: whole private keys,
//! tokens with the prefix of their issuer, and values that only the text before them reveals.
//!
//! ```text
//! SHAPES    id, prefixes, the rest           the token alone is enough
//! CONTEXTS  id, keywords, pattern            group 1 is the secret, else all is
//! ```
//!
//! All patterns together run in time linear in the text: none searches for a possibly missing end
//! beyond the next place where it could begin again.

use super::{Pattern, Rule, Shape};

/// A private key in PEM up to its end, across line breaks and their escapes; without an end, as far
/// as lines look like it.
const PRIVATE_KEY: &str = concat!(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:",
    r"(?:[^-]|-{1,4}[^-])*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|",
    r"(?:(?:\\+[nrt]|[^A-Za-z+/=-]){0,24}(?:[A-Za-z0-9+/=]{16,}|[A-Za-z0-9+/]{1,15}={1,2}))*)",
);

/// The name of a secret, and the value that is assigned to it; quotes are possible, also escaped
/// ones.
const ASSIGNED: &str = concat!(
    r"(?i)(?:passw(?:or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)",
    r#"s?(?:[_-](?:id|key|value))?\\{0,3}["']?\s{0,4}(?::=|=>|[=:])\s{0,4}\\{0,3}["']?"#,
    r#"([^\s"'\\,;&|<>(){}\[\]]{8,512})"#,
);

/// Prefixes, in ASCII, and the pattern of the rest.
const SHAPES: [(&str, &[&str], &str); 44] = [
    (
        "model-provider-key",
        &["sk-"],
        r"(?:(?:proj|svcacct|admin|ant|or|lf)-[\w-]{20,}|[A-Za-z0-9]{20,})",
    ),
    ("groq-key", &["gsk_"], r"\w{40,}"),
    ("xai-key", &["xai-"], r"\w{60,}"),
    ("perplexity-key", &["pplx-"], r"\w{40,}"),
    ("hugging-face-token", &["hf_"], r"[A-Za-z0-9]{30,}"),
    ("replicate-token", &["r8_"], r"\w{30,}"),
    ("google-oauth-token", &["ya29."], r"[\w-]{20,}"),
    ("google-client-secret", &["GOCSPX-"], r"[\w-]{20,}"),
    ("google-refresh-token", &["1//0"], r"[\w-]{30,}"),
    ("langsmith-key", &["lsv2_pt_", "lsv2_sk_"], r"\w{32,}"),
    (
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"\w{30,}",
    ),
    (
        "gitlab-token",
        &[
            "glpat-", "glrt-", "glptt-", "gldt-", "glsoat-", "glcbt-", "gloas-",
        ],
        r"[\w.-]{18,}",
    ),
    ("slack-token", &["xapp-", "xoxe."], r"[\w-]{20,}"),
    (
        "stripe-key",
        &["sk_test_", "sk_live_", "rk_test_", "rk_live_"],
        r"\w{16,}",
    ),
    ("crates-io-token", &["cio"], r"[A-Za-z0-9]{32}\b"),
    ("rubygems-key", &["rubygems_"], r"[a-f0-9]{40,}"),
    ("nuget-key", &["oy2"], r"[a-z0-9]{43}\b"),
    ("docker-token", &["dckr_pat_", "dckr_oat_"], r"[\w-]{20,}"),
    (
        "digitalocean-token",
        &["dop_v1_", "doo_v1_", "dor_v1_"],
        r"[a-f0-9]{40,}",
    ),
    ("heroku-key", &["HRKU-"], r"[\w-]{30,}"),
    (
        "shopify-token",
        &["shpat_", "shpca_", "shppa_", "shpss_"],
        r"[a-fA-F0-9]{32}",
    ),
    ("square-token", &["EAAA"], r"[\w-]{56,}"),
    ("databricks-token", &["dapi"], r"[a-f0-9]{32}"),
    ("new-relic-key", &["NRAK-"], r"[A-Z0-9]{27}"),
    ("sentry-token", &["sntrys_", "sntryu_"], r"[\w+/=-]{40,}"),
    ("grafana-token", &["glsa_", "glc_"], r"[\w+/=]{30,}"),
    ("linear-key", &["lin_api_", "lin_oauth_"], r"\w{30,}"),
    ("notion-token", &["ntn_", "secret_"], r"[A-Za-z0-9]{43,}"),
    ("figma-token", &["figd_", "figo_", "figu_"], r"[\w-]{30,}"),
    ("airtable-token", &["pat"], r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("atlassian-token", &["ATATT3"], r"[\w=-]{60,}"),
    ("vault-token", &["hvs.", "hvb.", "hvr."], r"[\w-]{24,}"),
    ("age-key", &["AGE-SECRET-KEY-1"], r"[A-Z0-9]{58}"),
    ("supabase-token", &["sbp_"], r"[a-f0-9]{40}"),
    (
        "vercel-token",
        &["vcp_", "vck_", "vci_", "vcr_"],
        r"\w{24,}",
    ),
    (
        "planetscale-token",
        &["pscale_pw_", "pscale_tkn_", "pscale_oauth_"],
        r"[\w.-]{32,}",
    ),
    (
        "doppler-token",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa."],
        r"[\w.-]{40,}",
    ),
    ("postman-key", &["PMAK-"], r"[a-f0-9-]{30,}"),
    ("pulumi-token", &["pul-"], r"[a-f0-9]{40}"),
    ("sonar-token", &["squ_", "sqp_", "sqa_"], r"[a-f0-9]{40}"),
    ("tailscale-key", &["tskey-"], r"[\w-]{20,}"),
    (
        "json-web-token",
        &["eyJ"],
        r"[\w-]{10,}(?:\.[\w-]{10,}){1,4}",
    ),
    ("npm-token", &["npm_"], r"\w{36}"),
    ("pypi-token", &["pypi-"], r"[\w-]{50,}"),
];

/// Patterns of the text around a secret.
const CONTEXTS: [(&str, &[&str], &str); 12] = [
    ("private-key-block", &["PRIVATE KEY"], PRIVATE_KEY),
    (
        "password-in-url",
        &["://"],
        r#"\b[a-z][a-z0-9+.-]{1,30}://[^\s/:@"'<>]{0,64}:([^\s/@"'<>]{3,128})@"#,
    ),
    (
        "bearer-token",
        &["bearer"],
        r"(?i)\bbearer\s{1,4}([A-Za-z0-9+/_.~=-]{20,})",
    ),
    (
        "authorization-header",
        &["authorization"],
        r#"(?i)authorization\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?(?:basic|token|digest)\s{1,4}([A-Za-z0-9+/_.~=-]{8,})"#,
    ),
    (
        "curl-password",
        &["curl"],
        r#"curl\b[^\n|;]{0,200}?\s(?:-u|--user)[\s=]{1,4}["']?[^\s:"']{1,64}:([^\s"']{3,128})"#,
    ),
    (
        "netrc-password",
        &["machine"],
        r"machine\s{1,4}\S{1,128}\s{1,4}login\s{1,4}\S{1,128}\s{1,4}password\s{1,4}(\S{3,128})",
    ),
    (
        "azure-account-key",
        &["AccountKey="],
        r"AccountKey=([A-Za-z0-9+/]{40,}={0,2})",
    ),
    ("signed-url", &["sig="], r"[?&]sig=([A-Za-z0-9%+/_-]{20,})"),
    (
        "azure-client-secret",
        &["Q~"],
        r"\b([A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
    ),
    (
        "telegram-bot-token",
        &[":A"],
        r"\b([0-9]{8,10}:A[A-Za-z0-9_-]{34})",
    ),
    (
        "discord-token",
        &["."],
        r"\b([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
    ),
    (
        "terraform-token",
        &[".atlasv1."],
        r"\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,})",
    ),
];

/// Fewest bits for each character of an assigned value: prose and code have fewer.
const ASSIGNED_ENTROPY: f64 = 3.0;

/// All rules of this file.
pub(super) fn rules() -> Vec<Rule> {
    let shapes = SHAPES.iter().map(|(id, beginnings, rest)| {
        let escaped: Vec<String> = beginnings.iter().map(|word| regex::escape(word)).collect();
        let pattern = format!(r"(?-u)\b(?:{})(?:{rest})", escaped.join("|"));
        // Without a group, the secret is the whole match.
        rule(id, beginnings, &pattern)
    });
    let contexts = CONTEXTS
        .iter()
        .map(|(id, keywords, pattern)| rule(id, keywords, pattern));
    let mut rules: Vec<_> = shapes.chain(contexts).collect();
    let names = ["pass", "pwd", "secret", "token", "key", "credential"];
    let mut assigned = rule("assigned-secret", &names, ASSIGNED);
    assigned.entropy = ASSIGNED_ENTROPY;
    // A word of code or prose has no digits, and a number or a time has no letters.
    let mixed = "[A-Za-z].*[0-9]|[0-9].*[A-Za-z]";
    assigned.shape.characters = Some(Pattern::new(mixed.to_owned()));
    rules.push(assigned);
    rules
}

fn rule(id: &str, keywords: &[&str], pattern: &str) -> Rule {
    Rule {
        id: id.to_owned(),
        pattern: Pattern::new(pattern.to_owned()),
        group: 0,
        keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
        entropy: 0.0,
        shape: Shape::default(),
        allowed: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use std::sync::LazyLock;
    use threadseal_convert::Detector;

    /// Compiling them takes longer than all searches.
    static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::builtin().unwrap());

    fn hidden(text: &str) -> String {
        let mut text = text.to_owned();
        for secret in RULES.find(&text).into_iter().rev() {
            text.replace_range(secret.place, "*");
        }
        text
    }

    /// `length` characters that look random.
    fn noise(length: usize) -> String {
        "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF"
            .chars()
            .cycle()
            .take(length)
            .collect()
    }

    fn hex(length: usize) -> String {
        "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
            .chars()
            .cycle()
            .take(length)
            .collect()
    }

    #[test]
    fn tokens_are_known_by_their_beginning() {
        for (beginning, rest) in [
            ("sk-ant-api03-", noise(95)),
            ("sk-proj-", noise(120)),
            ("sk-", noise(48)),
            ("sk-or-v1-", hex(64)),
            ("gsk_", noise(52)),
            ("hf_", noise(34)),
            ("ghr_", noise(36)),
            ("xapp-1-", noise(60)),
            ("ya29.", noise(100)),
            ("GOCSPX-", noise(28)),
            ("dor_v1_", hex(64)),
            ("shpat_", hex(32)),
            ("hvs.", noise(90)),
            ("eyJ", format!("{0}.eyJ{0}.{0}", noise(30))),
        ] {
            assert_eq!(hidden(&format!("use {beginning}{rest} now")), "use * now");
        }
    }

    // T-SCR-31
    #[test]
    fn what_stands_before_a_secret_betrays_it() {
        let value = noise(24);
        for (before, after) in [
            ("API_TOKEN=", "\nnext"),
            ("export PGPASSWORD='", "'"),
            ("{\"password\": \"", "\"}"),
            ("{\\\"client_secret\\\":\\\"", "\\\"}"),
            ("mysql --password=", " db"),
            ("curl -s -u bob:", " https://x"),
            ("https://bob:", "@git.acme.example/x.git"),
            ("Authorization: Basic ", "\r\n"),
            ("authorization: bearer ", "\""),
            ("machine x login bob password ", ""),
        ] {
            let text = format!("{before}{value}{after}");
            assert_eq!(hidden(&text), format!("{before}*{after}"));
        }
    }

    #[test]
    fn prose_code_and_counts_are_no_secrets() {
        for text in [
            "The token: something else. max_tokens=4096, input_tokens: 12345678",
            "let password = prompt_for_password(); token = self.tokenizer.next_token",
            "task-management-of-many-things sk-learn bearer of bad news",
            "https://example.org:8080/a?b=c see https://user@example.org",
        ] {
            assert_eq!(hidden(text), text);
        }
    }

    // T-SCR-31
    #[test]
    fn a_private_key_is_hidden_to_its_end_however_its_lines_break() {
        let line = noise(64);
        for kind in ["", "RSA ", "OPENSSH ", "ENCRYPTED ", "ANY "] {
            for end in [
                "\n",
                "\r\n",
                "\\n",
                "\\\\n",
                "\n    ",
                " ",
                "\n> ",
                "\n     2\t",
            ] {
                let key = format!(
                    "-----BEGIN {kind}PRIVATE KEY-----{end}{line}{end}{line}{end}QUJD=={end}-----END {kind}PRIVATE KEY-----"
                );
                assert_eq!(hidden(&format!("see {key}\nend")), "see *\nend", "{key}");
                let cut = key.split("-----END").next().unwrap().trim_end_matches(end);
                assert_eq!(
                    hidden(&format!("see {cut}\nthe end")),
                    "see *\nthe end",
                    "{cut}"
                );
            }
        }
        let pgp = format!(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: X v2 - y\n\n{line}\n=AbCd\n-----END PGP PRIVATE KEY BLOCK-----"
        );
        assert_eq!(hidden(&pgp), "*");
        let named = "look for -----BEGIN RSA PRIVATE KEY----- in files";
        assert_eq!(hidden(named), "look for * in files");
    }
}
