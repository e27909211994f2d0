//! Runs a target on changed inputs of its corpus, with stable Rust and without libFuzzer: `mutate
//! TARGET SECONDS [SEED]`. The tool does not see which code an input reaches, so it finds less than
//! libFuzzer in the same time. It stops at the first failure, and writes the input that failed to
//! `fuzz/artifacts/TARGET`.
#![allow(clippy::disallowed_methods, reason = "a tool for developers, without an event loop")]

use std::{
    fs,
    io::{Error, Result},
    path::{Path, PathBuf},
    time::Duration,
};

use espalier_fuzz_targets::{TARGETS, run};
use espalier_runtime::{random::Generator, time::Instant};

/// Maximum bytes of an input, as in run.sh.
const MAX_LENGTH: usize = 8 << 10;
/// Maximum time of an input. A run that took longer counts as a failure.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The interval of the lines that show the progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::other("usage: mutate TARGET SECONDS [SEED]");
    let [name, seconds, rest @ ..] = &arguments[..] else { return Err(usage()) };
    let target = TARGETS.iter().find(|target| name == target.name).ok_or_else(usage)?;
    let seconds = Duration::from_secs(seconds.parse().map_err(|_| usage())?);
    let seed = rest.first().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let fuzz = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let corpus = inputs(&fuzz.join("corpus").join(name))?;
    let mut random = Generator::from_seed(seed);
    let (began, mut reported, mut count) = (Instant::now(), Instant::now(), 0u64);
    while began.elapsed() < seconds {
        let input = changed(&corpus, &mut random);
        let run_began = Instant::now();
        let is_sound = std::panic::catch_unwind(|| run(target, &input)).is_ok();
        count += 1;
        if !is_sound || run_began.elapsed() > MAX_TIME {
            let folder = fuzz.join("artifacts").join(name);
            fs::create_dir_all(&folder)?;
            let path = folder.join(format!("mutated-{seed}-{count}"));
            fs::write(&path, &input)?;
            return Err(Error::other(format!("{name} failed, its input is {}", path.display())));
        }
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            println!("{name}: {count} executions in {} s", began.elapsed().as_secs());
        }
    }
    println!("{name}: {count} executions in {} s, none failed", began.elapsed().as_secs());
    Ok(())
}

/// Reads the inputs of a corpus in a fixed order.
fn inputs(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut paths = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    let inputs = paths.iter().map(fs::read).collect::<Result<Vec<_>>>()?;
    if inputs.is_empty() { Err(Error::other("the corpus is empty")) } else { Ok(inputs) }
}

/// Returns an input of the corpus with one to eight changes.
fn changed(corpus: &[Vec<u8>], random: &mut Generator) -> Vec<u8> {
    let mut below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let mut input = corpus[below(corpus.len())].clone();
    for _ in 0..=below(8) {
        let place = below(input.len());
        match below(7) {
            0 if !input.is_empty() => input[place] ^= 1 << below(8),
            1 if !input.is_empty() => input[place] = below(256) as u8,
            2 => input.insert(place, below(256) as u8),
            3 => input.truncate(place),
            4 if !input.is_empty() => {
                let end = place + below(input.len() - place) + 1;
                drop(input.drain(place..end.min(input.len())));
            }
            5 => {
                let end = place + below(16.min(input.len() - place + 1));
                let part = input[place..end.min(input.len())].to_vec();
                let to = below(input.len());
                input.splice(to..to, part);
            }
            _ => {
                let other = &corpus[below(corpus.len())];
                let from = below(other.len());
                input.truncate(place);
                input.extend_from_slice(&other[from..]);
            }
        }
        input.truncate(MAX_LENGTH);
    }
    input
}
