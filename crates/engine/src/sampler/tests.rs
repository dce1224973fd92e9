use super::filters::{min_p, top_k, top_p, typical};
use super::*;
use zinc_testkit::Rng;

/// Logits with a clear order and a long tail, as language models give.
fn row(rng: &mut Rng, n: usize) -> Vec<f32> {
    rng.normals(n, 3.0)
}

fn whole(logits: &[f32]) -> Head {
    Head { tokens: Candidates::of_row(logits, logits.len()).tokens, beyond: None }
}

/// softmax in f64, by token.
fn probabilities(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let w: Vec<f64> = logits.iter().map(|&l| f64::from(l - max).exp()).collect();
    let total: f64 = w.iter().sum();
    w.into_iter().map(|w| w / total).collect()
}

fn ids(head: &Head) -> Vec<u32> {
    let mut ids: Vec<u32> = head.tokens.iter().map(|t| t.0).collect();
    ids.sort_unstable();
    ids
}

/// The options that tests of the whole sampler go through.
fn variety() -> Vec<SamplingOptions> {
    let base = SamplingOptions { temperature: 0.8, ..Default::default() };
    let with = |f: fn(&mut SamplingOptions)| {
        let mut o = base.clone();
        f(&mut o);
        o
    };
    vec![
        SamplingOptions::default(),
        with(|_| {}),
        with(|o| o.temperature = 1.0),
        with(|o| o.top_k = 5),
        with(|o| o.top_p = 0.7),
        with(|o| o.min_p = 0.1),
        with(|o| o.typical_p = 0.6),
        with(|o| (o.top_k, o.top_p, o.min_p, o.typical_p) = (20, 0.9, 0.02, 0.9)),
        with(|o| (o.top_k, o.repetition_penalty) = (10, 1.3)),
        with(|o| (o.top_p, o.presence_penalty, o.frequency_penalty) = (0.8, 0.5, 0.3)),
        with(|o| (o.top_k, o.presence_penalty) = (10, -0.5)),
        with(|o| o.logit_bias = vec![(3, 4.0), (5, f32::NEG_INFINITY)]),
        with(|o| (o.top_k, o.logit_bias) = (3, vec![(1, -2.0), (2, f32::NEG_INFINITY)])),
    ]
}

#[test]
fn greedy_takes_the_largest_and_the_lower_id_of_equals() {
    let mut s = Sampler::new(SamplingOptions::default());
    assert_eq!(s.sample(&[0.0, 3.0, -1.0, 3.0]), Ok(1));
    assert_eq!(s.sample(&[f32::NAN, 3.0, 4.0]), Ok(2));
    assert_eq!(s.sample(&[f32::NAN, f32::NEG_INFINITY]), Err(NotFinite));
}

#[test]
fn filters_keep_what_their_definitions_say() {
    let mut rng = Rng::fresh();
    for _ in 0..200 {
        let n = 1 + rng.below(60);
        let logits = row(&mut rng, n);
        let p = probabilities(&logits);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));

        let k = 1 + rng.below(n);
        let mut head = whole(&logits);
        top_k(&mut head, k).unwrap();
        let mut want: Vec<u32> = order[..k].iter().map(|&i| i as u32).collect();
        want.sort_unstable();
        assert_eq!(ids(&head), want, "top-k {k}");

        let limit = f64::from(rng.uniform(0.05, 0.99));
        let mut head = whole(&logits);
        top_p(&mut head, limit).unwrap();
        let kept: f64 = ids(&head).iter().map(|&i| p[i as usize]).sum();
        let least = ids(&head).iter().map(|&i| p[i as usize]).fold(1.0, f64::min);
        assert!(kept >= limit - 1e-12 && kept - least < limit + 1e-12, "top-p {limit}: {kept}");

        let limit = f64::from(rng.uniform(0.001, 0.5));
        let mut head = whole(&logits);
        min_p(&mut head, limit).unwrap();
        let best = p[order[0]];
        let want: Vec<u32> = (0..n as u32).filter(|&i| p[i as usize] >= limit * best).collect();
        assert_eq!(ids(&head), want, "min-p {limit}");

        let limit = f64::from(rng.uniform(0.05, 0.99));
        let mut head = whole(&logits);
        typical(&mut head, limit).unwrap();
        let entropy: f64 = -p.iter().map(|p| p * p.ln()).sum::<f64>();
        let mut by_distance = (0..n).collect::<Vec<_>>();
        by_distance.sort_by(|&a, &b| (-p[a].ln() - entropy).abs().total_cmp(&(-p[b].ln() - entropy).abs()));
        let mut sum = 0.0;
        let count = 1 + by_distance
            .iter()
            .position(|&i| {
                sum += p[i];
                sum >= limit
            })
            .unwrap_or(n - 1);
        let mut want: Vec<u32> = by_distance[..count].iter().map(|&i| i as u32).collect();
        want.sort_unstable();
        assert_eq!(ids(&head), want, "typical {limit}");
    }
}

/// Pearson's χ² of 20,000 draws against the softmax at that temperature. For 11 degrees of freedom 45 is passed by chance once
/// in 200,000 runs; the seed is fixed.
#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> = (0..12).map(|i| (i as f32 * 1.7).sin() * 2.0).collect();
    for temperature in [0.5f32, 1.0, 2.0] {
        let mut s = Sampler::new(SamplingOptions { temperature, seed: 7, ..Default::default() });
        let mut counts = [0.0f64; 12];
        for _ in 0..20_000 {
            counts[s.sample(&logits).unwrap() as usize] += 1.0;
        }
        let scaled: Vec<f32> = logits.iter().map(|l| l / temperature).collect();
        let chi: f64 = probabilities(&scaled)
            .iter()
            .zip(counts)
            .map(|(p, c)| (c - 20_000.0 * p).powi(2) / (20_000.0 * p))
            .sum();
        assert!(chi < 45.0, "temperature {temperature}: χ² {chi}");
    }
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let mut rng = Rng::fresh();
    let rows: Vec<Vec<f32>> = (0..50).map(|_| row(&mut rng, 100)).collect();
    let run = |seed| {
        let mut s = Sampler::new(SamplingOptions { temperature: 1.0, seed, ..Default::default() });
        rows.iter().map(|r| s.sample(r).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn penalties_and_bias_change_the_logits_they_name() {
    let choose = |f: fn(&mut SamplingOptions), seen: &[u32], logits: &[f32]| {
        let mut o = SamplingOptions::default();
        f(&mut o);
        let mut s = Sampler::new(o);
        s.accept(seen);
        s.sample(logits).unwrap()
    };
    let rep: fn(&mut SamplingOptions) = |o| o.repetition_penalty = 2.0;
    assert_eq!(choose(rep, &[0], &[3.0, 2.0, -5.0]), 1);
    assert_eq!(choose(rep, &[0], &[-1.0, -1.5, -5.0]), 1, "negative logits are multiplied");
    assert_eq!(choose(|o| o.presence_penalty = 0.6, &[0, 0, 0], &[3.0, 2.0]), 0, "presence counts once");
    assert_eq!(choose(|o| o.frequency_penalty = 0.6, &[0, 0, 0], &[3.0, 2.0]), 1, "frequency counts each");
    assert_eq!(choose(|o| o.logit_bias = vec![(1, 5.0)], &[], &[3.0, 2.0]), 1);
    assert_eq!(choose(|o| o.logit_bias = vec![(0, f32::NEG_INFINITY)], &[], &[3.0, 2.0]), 1);
    let window: fn(&mut SamplingOptions) = |o| (o.presence_penalty, o.penalty_window) = (2.0, 2);
    assert_eq!(choose(window, &[0, 5, 5], &[3.0, 2.0]), 0, "tokens before the window are forgotten");
    assert_eq!(choose(window, &[5, 0, 5], &[3.0, 2.0]), 1);
}

/// Whatever the candidates decide, the full row decides too, and they do decide most of what top-k limits.
#[test]
fn candidates_never_decide_otherwise_than_the_full_row() {
    let mut rng = Rng::fresh();
    for (i, options) in variety().into_iter().enumerate() {
        let mut decided = 0;
        let mut full = Sampler::new(options.clone());
        let mut fast = Sampler::new(options.clone());
        for step in 0..300 {
            let logits = row(&mut rng, 400);
            let want = full.sample(&logits).unwrap();
            // As a GPU returns them: the log-sum-exp rounded to f32.
            let mut c = Candidates::of_row(&logits, 64);
            c.log_sum_exp = f64::from(c.log_sum_exp as f32);
            let got = fast.sample_candidates(&c).inspect(|_| decided += 1);
            let got = got.unwrap_or_else(|| fast.sample(&logits).unwrap());
            assert_eq!(got, want, "options {i}, step {step}");
            full.accept(&[want]);
            fast.accept(&[want]);
        }
        let limited = options.top_k > 0 && options.presence_penalty >= 0.0 || options.greedy();
        assert!(!limited || decided == 300, "options {i}: {decided} of 300 decided by candidates");
    }
}

#[test]
fn options_out_of_range_are_named() {
    let bad: [fn(&mut SamplingOptions); 7] = [
        |o| o.temperature = -1.0,
        |o| o.temperature = f32::NAN,
        |o| o.top_p = 0.0,
        |o| o.min_p = 1.5,
        |o| o.typical_p = f32::NAN,
        |o| o.repetition_penalty = 0.0,
        |o| o.logit_bias = vec![(1, f32::NAN)],
    ];
    for f in bad {
        let mut o = SamplingOptions::default();
        f(&mut o);
        assert!(o.check().is_err_and(|m| m.contains('`')), "{o:?}");
    }
    assert!(variety().iter().all(|o| o.check().is_ok()));
}
