//! Zipf: the page of rank k (1 to U) is written with probability proportional to k^-theta. Ranks are
//! scattered over the address space by a seeded permutation, so that popularity is not visible in
//! addresses. The contexts are the ten deciles of rank: the hottest tenth of the pages, the next, ...
//!
//! Sampling is exact: rejection-inversion (Hormann and Derflinger, "Rejection-inversion to generate
//! variates from monotone discrete distributions", ACM TOMACS 6(3), 1996) inverts the integral of
//! x^-theta, which lies above the sum, and rejects the difference; it needs no table and on average
//! fewer than 1.3 draws. The permutation is a four-round Feistel network on the next even power of
//! two, walked until it falls below U (Black and Rogaway, CT-RSA 2002): no table either.
//!
//! Known weakness: powers and logarithms come from the system's mathematics library, so another
//! library may, rarely, round a sample to another page.

use super::{Common, Generator, GeneratorError, GeneratorOption, Random, Request, Sampler};
use crate::ids::Lba;

pub(super) const GENERATOR: Generator = Generator {
    name: "zipf",
    about: "The page of rank k is written with probability proportional to 1/k^theta; ranks are scattered",
    options: &[GeneratorOption {
        name: "theta",
        help: "Skew, 0 (uniform) to 10; 0.99 is YCSB's",
        default: 0.99,
    }],
    make,
};

/// Contexts: deciles of rank.
const CLASSES: u64 = 10;

fn make(common: &Common, values: &[f64]) -> Result<Box<dyn Sampler>, GeneratorError> {
    let &[theta] = values else { unreachable!("as many values as options") };
    if !(0.0..=10.0).contains(&theta) {
        return Err(GeneratorError::range("theta", theta, "0 to 10"));
    }
    // Not the seed of the samples, or a page's place and the first draws would depend on each other.
    let mut keys = Random::new(common.seed ^ 0x7065_726d_7574_6521);
    Ok(Box::new(Zipf {
        ranks: Ranks::new(common.pages, theta),
        places: Permutation::new(common.pages, &mut keys),
        pages: common.pages,
    }))
}

struct Zipf {
    ranks: Ranks,
    places: Permutation,
    pages: u64,
}

impl Sampler for Zipf {
    fn labels(&self) -> Vec<String> {
        (0..CLASSES).map(|i| format!("zipf ranks {}-{} %", i * 10, i * 10 + 10)).collect()
    }

    fn sample(&mut self, rng: &mut Random) -> Request {
        let rank = self.ranks.sample(rng);
        let class = u128::from(rank) * u128::from(CLASSES) / u128::from(self.pages);
        Request::page(Lba(self.places.apply(rank)), class as usize)
    }
}

/// Draws ranks from 0 on with probability proportional to (rank + 1)^-theta.
struct Ranks {
    count: f64,
    theta: f64,
    /// H(1.5) - 1: the integral's value where rank 1 begins.
    first: f64,
    /// H(count + 0.5): its value where the last rank ends.
    last: f64,
    /// Ranks this close below their x are accepted without evaluating h.
    sure: f64,
}

impl Ranks {
    fn new(count: u64, theta: f64) -> Ranks {
        let count = count as f64;
        let mut ranks = Ranks { count, theta, first: 0.0, last: 0.0, sure: 0.0 };
        ranks.first = ranks.integral(1.5) - 1.0;
        ranks.last = ranks.integral(count + 0.5);
        ranks.sure = 2.0 - ranks.inverse(ranks.integral(2.5) - ranks.weight(2.0));
        ranks
    }

    fn sample(&self, rng: &mut Random) -> u64 {
        loop {
            let u = self.last + rng.unit() * (self.first - self.last);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.count);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }

    /// h(x) = x^-theta.
    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// H(x) = (x^(1-theta) - 1) / (1-theta), an integral of h; ln x for theta = 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        exp_m1_over((1.0 - self.theta) * ln) * ln
    }

    /// The x with H(x) = y.
    fn inverse(&self, y: f64) -> f64 {
        // Rounding may push the argument below the domain of the logarithm.
        let t = (y * (1.0 - self.theta)).max(-1.0);
        (ln_1p_over(t) * y).exp()
    }
}

/// (e^x - 1) / x, smooth at 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0 * (1.0 + x * 0.25)) }
}

/// ln(1 + x) / x, smooth at 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - x * 0.25)) }
}

/// A pseudo-random bijection of [0, count).
struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    fn new(count: u64, rng: &mut Random) -> Permutation {
        let bits = u64::BITS - (count - 1).leading_zeros();
        Permutation { count, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| rng.bits()) }
    }

    fn apply(&self, index: u64) -> u64 {
        assert!(index < self.count, "the permutation is of [0, count)");
        let mut value = self.shuffle(index);
        // The domain is less than four times as large as count, so this ends soon; it does end,
        // because the walk follows a cycle that contains `index`.
        while value >= self.count {
            value = self.shuffle(value);
        }
        value
    }

    fn shuffle(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_is_a_bijection() {
        for count in [1, 2, 3, 5, 64, 65, 1000, 4097] {
            let permutation = Permutation::new(count, &mut Random::new(count));
            let mut images: Vec<u64> = (0..count).map(|i| permutation.apply(i)).collect();
            images.sort_unstable();
            assert!(images.iter().copied().eq(0..count), "count {count}");
        }
    }

    #[test]
    fn permutation_scatters() {
        let permutation = Permutation::new(1 << 20, &mut Random::new(1));
        let neighbours = (0..10_000u64)
            .filter(|&i| permutation.apply(i).abs_diff(permutation.apply(i + 1)) < 1024)
            .count();
        // Two random places of 2^20 are closer than 1024 with probability 0.002.
        assert!(neighbours < 50, "{neighbours} of 10,000 neighbours stayed close");
    }
}
