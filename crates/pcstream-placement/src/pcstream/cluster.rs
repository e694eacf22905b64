//! Grouping lifetimes on a line into at most k clusters.
//!
//! [`k_means`] is exact: it minimises the sum of squared distances to the cluster means over all
//! partitions, by dynamic programming over sorted values (the Ckmeans.1d.dp problem). In one
//! dimension optimal clusters are intervals, and the best last cut moves right as values are
//! added, so each of the k layers is filled by divide and conquer in O(n log n). FAST'19 (section
//! 5.2) cites that of Hartigan and Wong, which may stop before the optimum; exact needs no start values.
//!
//! [`merge_closest`] is the authors' workshop version (HotStorage'18): begin with every value
//! alone, merge the two neighbours with the closest means until k are left.
//!
//! Units: values are integers (lifetimes in pages, or their fixed-point logarithms), multiplicities
//! count equal values. Values are at most 2^40 and the multiplicities sum to at most 2^32, or, of
//! logarithms, at most 2^22 and 2^63: sums stay below 2^112, exact in `u128`, and no digits cancel.
//! Equal values always share a cluster.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A value and how often it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// The value.
    pub value: u64,
    /// How often it occurs, at least once.
    pub count: u64,
}

/// Sorts values, each with how often it occurs, and joins equal ones.
pub fn distinct(values: &mut [(u64, u64)], out: &mut Vec<Weighted>) {
    values.sort_unstable();
    out.clear();
    for &(value, count) in values.iter() {
        match out.last_mut() {
            Some(last) if last.value == value => last.count += count,
            _ => out.push(Weighted { value, count }),
        }
    }
}

/// Prefix sums that give the cost of any interval in constant time.
struct Sums {
    count: Vec<u64>,
    sum: Vec<u128>,
    squares: Vec<u128>,
}

impl Sums {
    fn new(points: &[Weighted]) -> Sums {
        let (mut count, mut sum, mut squares) = (vec![0], vec![0], vec![0]);
        for (i, p) in points.iter().enumerate() {
            let (value, weight) = (u128::from(p.value), u128::from(p.count));
            count.push(count[i] + p.count);
            sum.push(sum[i] + weight * value);
            squares.push(squares[i] + weight * value * value);
        }
        Sums { count, sum, squares }
    }

    /// Sum of squared distances to the mean of points `from..to`.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let count = u128::from(self.count[to] - self.count[from]);
        if count == 0 {
            return 0.0;
        }
        let sum = self.sum[to] - self.sum[from];
        let squares = self.squares[to] - self.squares[from];
        // sum(x^2) - sum(x)^2 / n with sum = q n + r: all but r^2 / n is exact in integers.
        let (q, r) = (sum / count, sum % count);
        let whole = squares - q * q * count - 2 * q * r;
        match whole.checked_mul(count) {
            Some(scaled) => (scaled - r * r) as f64 / count as f64,
            None => whole as f64 - (r * r) as f64 / count as f64,
        }
    }
}

/// The cheapest partition of sorted distinct points into at most `k` intervals: the index where
/// each cluster begins, the first being 0. All `k` are used if there are as many points.
pub fn k_means(points: &[Weighted], k: usize) -> Vec<usize> {
    let n = points.len();
    assert!(k > 0, "at least one cluster");
    debug_assert!(points.windows(2).all(|w| w[0].value < w[1].value), "sorted and distinct");
    if n <= k {
        return (0..n).collect();
    }
    let sums = Sums::new(points);
    // costs[j] is the cheapest cost of points 0..=j in as many clusters as layers were filled.
    let mut costs: Vec<f64> = (0..n).map(|j| sums.cost(0, j + 1)).collect();
    let mut next = vec![0.0; n];
    // begins[layer][j] is where the last cluster of that cheapest partition begins.
    let mut begins = vec![vec![0u32; n]];
    for layer in 1..k {
        let mut begin = vec![0u32; n];
        fill(&sums, &costs, &mut next, &mut begin, layer);
        std::mem::swap(&mut costs, &mut next);
        begins.push(begin);
    }
    let mut cuts = vec![0; k];
    let mut last = n - 1;
    for layer in (1..k).rev() {
        cuts[layer] = begins[layer][last] as usize;
        last = cuts[layer] - 1;
    }
    cuts
}

/// Fills one layer of the table: for each j >= layer the best begin b in layer..=j, minimising
/// costs[b - 1] + cost(b..=j). Best begins do not decrease in j; ties take the smallest.
fn fill(sums: &Sums, costs: &[f64], next: &mut [f64], begin: &mut [u32], layer: usize) {
    // (first j, last j, lowest begin, highest begin); depth is at most log2 n.
    let mut stack = vec![(layer, costs.len() - 1, layer, costs.len() - 1)];
    while let Some((first, last, low, high)) = stack.pop() {
        let j = first + (last - first) / 2;
        let (mut best, mut best_cost) = (low, f64::INFINITY);
        for b in low.max(layer)..=high.min(j) {
            let cost = costs[b - 1] + sums.cost(b, j + 1);
            if cost < best_cost {
                (best, best_cost) = (b, cost);
            }
        }
        next[j] = best_cost;
        begin[j] = best as u32;
        if j > first {
            stack.push((first, j - 1, low, best));
        }
        if j < last {
            stack.push((j + 1, last, best, high));
        }
    }
}

/// Distance of two neighbouring clusters, the clusters, and their versions when it was measured.
type Gap = (u64, usize, usize, u32, u32);

/// Merges neighbours with the closest means until `k` clusters are left; of equally close ones the
/// lower. Returns where each cluster begins.
pub fn merge_closest(points: &[Weighted], k: usize) -> Vec<usize> {
    let n = points.len();
    assert!(k > 0, "at least one cluster");
    // Clusters form a list over the indices of their first points; a cluster's version tells old
    // heap entries from current ones.
    let mut sums: Vec<(u128, u64)> =
        points.iter().map(|p| (u128::from(p.value) * u128::from(p.count), p.count)).collect();
    let mut after: Vec<usize> = (1..=n).collect();
    let mut before: Vec<usize> = (0..n).map(|i| i.wrapping_sub(1)).collect();
    let mut version = vec![0u32; n];
    let mut alive = vec![true; n];
    let mean = |(sum, count): (u128, u64)| sum as f64 / count as f64;
    // Distances are not negative, so their bit patterns are in order.
    let gap = |sums: &[(u128, u64)], a: usize, b: usize| (mean(sums[b]) - mean(sums[a])).max(0.0).to_bits();
    let mut heap: BinaryHeap<Reverse<Gap>> =
        (1..n).map(|b| Reverse((gap(&sums, b - 1, b), b - 1, b, 0, 0))).collect();
    let mut clusters = n;
    while clusters > k {
        let Some(Reverse((_, a, b, va, vb))) = heap.pop() else { break };
        if !alive[a] || !alive[b] || version[a] != va || version[b] != vb {
            continue;
        }
        sums[a] = (sums[a].0 + sums[b].0, sums[a].1 + sums[b].1);
        version[a] += 1;
        alive[b] = false;
        after[a] = after[b];
        if after[b] < n {
            before[after[b]] = a;
        }
        clusters -= 1;
        for (x, y) in [(before[a], a), (a, after[a])] {
            if x < n && y < n {
                heap.push(Reverse((gap(&sums, x, y), x, y, version[x], version[y])));
            }
        }
    }
    (0..n).filter(|&i| alive[i]).collect()
}

/// Total cost of a partition.
#[cfg(test)]
pub fn cost(points: &[Weighted], cuts: &[usize]) -> f64 {
    let sums = Sums::new(points);
    let ends = cuts.iter().skip(1).copied().chain([points.len()]);
    cuts.iter().zip(ends).map(|(&from, to)| sums.cost(from, to)).sum()
}

/// log2 in fixed point with 16 fractional bits, truncated, by integer arithmetic alone; 0 for 0.
pub fn log2_fixed(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let whole = 63 - u64::from(value.leading_zeros());
    // The mantissa in [1, 2) with 31 fractional bits; squaring doubles the logarithm.
    let mut mantissa = if whole >= 31 { value >> (whole - 31) } else { value << (31 - whole) };
    let mut fraction = 0;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 31;
        fraction <<= 1;
        if mantissa >= 1 << 32 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    (whole << 16) | fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(values: &[u64]) -> Vec<Weighted> {
        let mut out = Vec::new();
        distinct(&mut values.iter().map(|&v| (v, 1)).collect::<Vec<_>>(), &mut out);
        out
    }

    fn groups(values: &[u64], cuts: &[usize]) -> Vec<Vec<u64>> {
        let points = points(values);
        let ends = cuts.iter().skip(1).copied().chain([points.len()]);
        cuts.iter().zip(ends).map(|(&a, b)| points[a..b].iter().map(|p| p.value).collect()).collect()
    }

    #[test]
    fn clusters_by_hand() {
        let values = [1, 2, 3, 10, 11, 100, 1000];
        let by_means = |k| groups(&values, &k_means(&points(&values), k));
        assert_eq!(by_means(1), [vec![1, 2, 3, 10, 11, 100, 1000]]);
        assert_eq!(by_means(2), [vec![1, 2, 3, 10, 11, 100], vec![1000]]);
        assert_eq!(by_means(3), [vec![1, 2, 3, 10, 11], vec![100], vec![1000]]);
        assert_eq!(by_means(4), [vec![1, 2, 3], vec![10, 11], vec![100], vec![1000]]);
        assert_eq!(by_means(7).len(), 7);
        assert_eq!(by_means(20).len(), 7, "no empty clusters");
        // Costs: {1,2,3} 2, {10,11} 0.5
        assert_eq!(cost(&points(&values), &k_means(&points(&values), 4)), 2.5);
    }

    /// 0 4 6 | 11: gaps 4, 2, 5. Merging: {4,6} mean 5, then gaps 5 and 6: {0,4,6}. k-means for two:
    /// {0,4,6},{11} costs 18.67, {0},{4,6,11} 26, {0,4},{6,11} 20.5.
    #[test]
    fn merging_by_hand() {
        let merged = |values: &[u64], k| groups(values, &merge_closest(&points(values), k));
        assert_eq!(merged(&[0, 4, 6, 11], 3), [vec![0], vec![4, 6], vec![11]]);
        assert_eq!(merged(&[0, 4, 6, 11], 2), [vec![0, 4, 6], vec![11]]);
        assert_eq!(merged(&[0, 4, 6, 11], 9).len(), 4);
        // Greedy is not optimal: ties go to the lower pair, {0,2}, then {4,6}.
        assert_eq!(merged(&[0, 2, 4, 6, 9], 3), [vec![0, 2], vec![4, 6], vec![9]]);
        // The mean of a heavy value moves less: 0 (x3), 4 and 9: {0,4} has mean 1, gap 8.
        assert_eq!(merged(&[0, 0, 0, 4, 9], 2), [vec![0, 4], vec![9]]);
    }

    #[test]
    fn nothing_makes_no_cluster() {
        assert!(k_means(&[], 3).is_empty());
        assert!(merge_closest(&[], 3).is_empty());
    }

    #[test]
    fn logarithms_by_hand() {
        assert_eq!([0, 1, 2, 4, 1 << 40].map(log2_fixed), [0, 0, 1 << 16, 2 << 16, 40 << 16]);
        for value in [3u64, 5, 1000, 123_456_789, u64::from(u32::MAX)] {
            let error = (value as f64).log2() - log2_fixed(value) as f64 / 65536.0;
            assert!((0.0..2.5e-5).contains(&error), "{value}: {error}");
        }
    }

    /// The cheapest of all partitions into at most k intervals.
    fn brute_force(points: &[Weighted], k: usize) -> f64 {
        let n = points.len();
        let mut best = f64::INFINITY;
        for cuts in 0u32..1 << (n - 1) {
            if cuts.count_ones() as usize >= k {
                continue;
            }
            let begins: Vec<usize> = (0..n).filter(|&i| i == 0 || cuts & (1 << (i - 1)) != 0).collect();
            let ends = begins.iter().skip(1).copied().chain([n]);
            let total: f64 = begins
                .iter()
                .zip(ends)
                .map(|(&a, b)| {
                    let weight: f64 = points[a..b].iter().map(|p| p.count as f64).sum();
                    let mean: f64 =
                        points[a..b].iter().map(|p| (p.value * p.count) as f64).sum::<f64>() / weight;
                    points[a..b].iter().map(|p| p.count as f64 * (p.value as f64 - mean).powi(2)).sum::<f64>()
                })
                .sum();
            best = best.min(total);
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn k_means_is_as_cheap_as_brute_force(
            values in prop::collection::vec(prop_oneof![0u64..40, 0u64..100_000, 0u64..1 << 32], 1..14),
            k in 1usize..8,
        ) {
            let points = points(&values);
            let cuts = k_means(&points, k);
            prop_assert_eq!(cuts.len(), k.min(points.len()));
            prop_assert!(cuts.windows(2).all(|w| w[0] < w[1]) && cuts[0] == 0);
            let (ours, best) = (cost(&points, &cuts), brute_force(&points, k));
            prop_assert!((ours - best).abs() <= 1e-9 * best.max(1.0), "{} against {}", ours, best);
        }

        /// The divide and conquer over many points, against the plain quadratic recurrence.
        #[test]
        fn k_means_of_many_points_is_optimal(
            values in prop::collection::vec(0u64..1 << 32, 100..160), k in 2usize..12,
        ) {
            let points = points(&values);
            let sums = Sums::new(&points);
            let n = points.len();
            let mut costs: Vec<f64> = (0..n).map(|j| sums.cost(0, j + 1)).collect();
            for layer in 1..k {
                costs = (0..n).map(|j| {
                    (layer..=j).map(|b| costs[b - 1] + sums.cost(b, j + 1)).fold(f64::INFINITY, f64::min)
                }).collect();
            }
            let ours = cost(&points, &k_means(&points, k));
            prop_assert!((ours - costs[n - 1]).abs() <= 1e-9 * ours.max(1.0));
        }

        /// Each merge joins the pair that a plain search finds.
        #[test]
        fn merging_follows_the_plain_rule(
            values in prop::collection::vec(0u64..1000, 1..24), k in 1usize..6,
        ) {
            let points = points(&values);
            let mut clusters: Vec<(usize, u128, u64)> = points.iter().enumerate()
                .map(|(i, p)| (i, u128::from(p.value * p.count), p.count)).collect();
            while clusters.len() > k {
                let mean = |c: &(usize, u128, u64)| c.1 as f64 / c.2 as f64;
                let gaps: Vec<f64> = clusters.windows(2).map(|w| mean(&w[1]) - mean(&w[0])).collect();
                let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
                let at = gaps.iter().position(|&g| g == least).expect("there is a gap");
                let b = clusters.remove(at + 1);
                clusters[at] = (clusters[at].0, clusters[at].1 + b.1, clusters[at].2 + b.2);
            }
            let expected: Vec<usize> = clusters.iter().map(|c| c.0).collect();
            prop_assert_eq!(merge_closest(&points, k), expected);
        }
    }
}
