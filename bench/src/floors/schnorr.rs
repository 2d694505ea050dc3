//! Signature verifications per second on all cores: no relay can accept events faster than that.
//! Keys are parsed beforehand, which flatters the floor and not the relay.

use crate::process::cores;
use crate::stats::rate;
use grasp_testkit::Random;
use secp256k1::{Keypair, SecretKey, XOnlyPublicKey, schnorr};
use std::time::{Duration, Instant};

struct Signed {
    message: [u8; 32],
    signature: schnorr::Signature,
    key: XOnlyPublicKey,
}

/// The best of several slices counts, because any disturbance only makes it look slower.
const SLICES: u32 = 4;
/// Distinct signatures per core, so that nothing is answered from a cache.
const SIGNATURES: u64 = 500;

pub(crate) fn per_second(time: Duration) -> f64 {
    (0..SLICES).map(|_| on_all_cores(time / SLICES)).fold(0.0, f64::max)
}

fn on_all_cores(time: Duration) -> f64 {
    std::thread::scope(|scope| {
        let start = |core| scope.spawn(move || verify(core as u64, time));
        let threads: Vec<_> = (0..cores()).map(start).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

fn verify(core: u64, time: Duration) -> f64 {
    let all: Vec<Signed> = (0..SIGNATURES).map(|n| sign(core * SIGNATURES + n)).collect();
    let started = Instant::now();
    let mut verified = 0;
    while started.elapsed() < time {
        let good = |one: &&Signed| schnorr::verify(&one.signature, &one.message, &one.key).is_ok();
        verified += all.iter().filter(good).count();
    }
    rate(verified, started.elapsed())
}

fn sign(number: u64) -> Signed {
    let mut random = Random::seeded(number);
    let secret = loop {
        // Practically every number is a key.
        if let Ok(secret) = SecretKey::from_secret_bytes(random.bytes32()) {
            break secret;
        }
    };
    let keypair = Keypair::from_secret_key(&secret);
    let message = random.bytes32();
    let signature = schnorr::sign_no_aux_rand(&message, &keypair);
    Signed { message, signature, key: keypair.x_only_public_key().0 }
}
