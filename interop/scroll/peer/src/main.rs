//! Drives the published `agent-scroll` crate.
//!
//! ```text
//! scroll-peer                    requests, one JSON object a line, from stdin; an answer a line
//!   {"op":"verify","file":F,"key":HEX?}           {"ok":true} | {"failures":[[TURN,REASON],…]}
//!   {"op":"seal","file":F,"out":O,"key":HEX?}     {"ok":true}; writes the sealed array to O
//!   {"op":"canon","file":F}                       {"hex":HEX}
//!                                                 {"error":TEXT} where there is no answer
//! scroll-peer bench FILE [HEX]   verifies FILE once; "WALL CPU PEAK TURNS 0" (seconds, bytes)
//! ```
//! `peer.py` uses the same protocol for the Python package.
#![forbid(unsafe_code)]

use agent_scroll::{SignOpts, canonical, seal_chain, verify};
use serde_json::{Value, json};
use std::error::Error;
use std::fs;
use std::io::{BufRead, Write};
use std::panic::catch_unwind;
use std::time::Instant;

type Done<T> = Result<T, Box<dyn Error>>;

fn main() -> Done<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(),
        ["bench", file] => bench(file, None),
        ["bench", file, key] => bench(file, Some(key)),
        _ => Err("usage: scroll-peer [bench FILE [HEX]]".into()),
    }
}

fn serve() -> Done<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = catch_unwind(|| answer(&request).map_err(|error| error.to_string()));
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => json!({ "error": error }),
            Err(_) => json!({ "error": "panicked" }),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(request: &Value) -> Done<Value> {
    let text = |name: &str| request[name].as_str();
    let bytes = fs::read(text("file").ok_or("no file")?)?;
    let document: Value = serde_json::from_slice(&bytes)?;
    match text("op") {
        Some("canon") => Ok(json!({ "hex": hex(&canonical(&document)?) })),
        Some("verify") => {
            let key = text("key").map(from_hex).transpose()?;
            let result = verify(chain(&document)?, key.as_ref());
            if result.ok {
                return Ok(json!({ "ok": true }));
            }
            let failures = result.failures.iter();
            let failures: Vec<Value> = failures.map(|f| json!([f.turn, f.reason])).collect();
            Ok(json!({ "failures": failures }))
        }
        Some("seal") => {
            let sign = text("key").map(from_hex).transpose()?.map(signer);
            let sealed = seal_chain(chain(&document)?, sign.as_ref())?;
            fs::write(
                text("out").ok_or("no out")?,
                Value::from(sealed).to_string(),
            )?;
            Ok(json!({ "ok": true }))
        }
        _ => Err("no such op".into()),
    }
}

fn chain(document: &Value) -> Done<&[Value]> {
    Ok(document.as_array().ok_or("no array")?)
}

fn signer(privkey: [u8; 32]) -> SignOpts {
    let pubkey = ed25519_dalek::SigningKey::from_bytes(&privkey)
        .verifying_key()
        .to_bytes();
    SignOpts { privkey, pubkey }
}

fn bench(file: &str, key: Option<&str>) -> Done<()> {
    let started = Instant::now();
    let key = key.map(from_hex).transpose()?;
    let chain: Vec<Value> = serde_json::from_slice(&fs::read(file)?)?;
    if !verify(&chain, key.as_ref()).ok {
        return Err("the chain does not verify".into());
    }
    let wall = started.elapsed().as_secs_f64();
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .ok_or("no VmHWM")?
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    println!("{wall} {cpu} {} {} 0", peak * 1024, chain.len());
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Done<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 {
        return Err("a key has 64 digits".into());
    }
    for (at, byte) in key.iter_mut().enumerate() {
        let digits = text.get(2 * at..2 * at + 2).ok_or("no hex")?;
        *byte = u8::from_str_radix(digits, 16)?;
    }
    Ok(key)
}
