//! Exact conversions between the three widths of IEEE 754 floats.
//!
//! ```text
//!          sign  exponent  fraction
//! half        1         5        10     f9
//! single      1         8        23     fa
//! double      1        11        52     fb
//! ```
//! A double is written in a shorter width only if it reads back as the same double. This holds for
//! subnormals too.

/// A width below the double.
pub(super) struct Width {
    exponent: u32,
    fraction: u32,
}

pub(super) const HALF: Width = Width {
    exponent: 5,
    fraction: 10,
};

pub(super) const SINGLE: Width = Width {
    exponent: 8,
    fraction: 23,
};

const DOUBLE_FRACTION: u32 = 52;
const DOUBLE_BIAS: u64 = 1023;

impl Width {
    fn bias(&self) -> u64 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The exponent field of infinities and NaN.
    fn special(&self) -> u64 {
        (1 << self.exponent) - 1
    }
}

/// Appends a finite float in the shortest width that holds it.
pub(super) fn write(out: &mut Vec<u8>, value: f64) {
    if let Some(bits) = narrow(value, &HALF) {
        out.push(0xf9);
        out.extend_from_slice(&bits.to_be_bytes()[6..]);
    } else if let Some(bits) = narrow(value, &SINGLE) {
        out.push(0xfa);
        out.extend_from_slice(&bits.to_be_bytes()[4..]);
    } else {
        out.push(0xfb);
        out.extend_from_slice(&value.to_bits().to_be_bytes());
    }
}

/// The bits of a finite `value` in `width`, if the conversion is exact.
fn narrow(value: f64, width: &Width) -> Option<u64> {
    let bits = value.to_bits();
    let sign = (bits >> 63) << (width.exponent + width.fraction);
    let exponent = bits >> DOUBLE_FRACTION & 0x7ff;
    let fraction = bits & ((1 << DOUBLE_FRACTION) - 1);
    if exponent == 0 {
        // Zero; a subnormal double is below the other two.
        return (fraction == 0).then_some(sign);
    }
    let dropped = DOUBLE_FRACTION - width.fraction;
    let biased = exponent + width.bias();
    if biased > DOUBLE_BIAS {
        let exponent = biased - DOUBLE_BIAS;
        let fits = exponent < width.special() && fraction.trailing_zeros() >= dropped;
        return fits.then_some(sign | exponent << width.fraction | fraction >> dropped);
    }
    // Subnormal in `width`: the leading one becomes part of the fraction.
    let shift = u64::from(dropped) + 1 + DOUBLE_BIAS - biased;
    let shift = u32::try_from(shift).ok()?;
    let whole = fraction | 1 << DOUBLE_FRACTION;
    (whole.trailing_zeros() >= shift).then(|| sign | whole >> shift)
}

/// The double with the value that `bits` have in `width`.
pub(super) fn widen(bits: u64, width: &Width) -> f64 {
    let fraction = bits & ((1 << width.fraction) - 1);
    let exponent = bits >> width.fraction & width.special();
    let sign = bits >> (width.exponent + width.fraction) << 63;
    let shift = DOUBLE_FRACTION - width.fraction;
    let magnitude = match exponent {
        0 => return f64::from_bits(sign | subnormal(fraction, width)),
        special if special == width.special() => 0x7ff << DOUBLE_FRACTION | fraction << shift,
        exponent => (exponent + DOUBLE_BIAS - width.bias()) << DOUBLE_FRACTION | fraction << shift,
    };
    f64::from_bits(sign | magnitude)
}

/// The bits of a double without sign for a fraction without leading one.
fn subnormal(fraction: u64, width: &Width) -> u64 {
    if fraction == 0 {
        return 0;
    }
    let lead = fraction.ilog2();
    let exponent = u64::from(lead) + DOUBLE_BIAS + 1 - width.bias() - u64::from(width.fraction);
    let without_lead = fraction ^ (1 << lead);
    exponent << DOUBLE_FRACTION | without_lead << (DOUBLE_FRACTION - lead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_widens_and_narrows_back() {
        for bits in 0..=0xffff_u64 {
            let value = widen(bits, &HALF);
            if value.is_finite() {
                assert_eq!(narrow(value, &HALF), Some(bits), "{bits:04x} {value}");
                assert!(narrow(value, &SINGLE).is_some(), "{bits:04x}");
            } else {
                assert_eq!(bits >> 10 & 31, 31);
            }
        }
    }

    #[test]
    fn singles_agree_with_the_processor() {
        for step in 0..200_000_u32 {
            let single = f32::from_bits(step.wrapping_mul(0x9e37_79b1));
            let value = f64::from(single);
            let widened = widen(u64::from(single.to_bits()), &SINGLE);
            if value.is_finite() {
                assert_eq!(widened.to_bits(), value.to_bits());
                assert_eq!(narrow(value, &SINGLE), Some(u64::from(single.to_bits())));
            } else {
                assert!(!widened.is_finite());
            }
        }
    }

    #[test]
    fn what_would_lose_a_bit_is_not_narrowed() {
        for value in [0.1, 65505.5, 1e300, 5e-324, 2.0_f64.powi(-25) * 1.5] {
            assert_eq!(narrow(value, &HALF), None, "{value}");
        }
        for value in [0.1, 1e300, 5e-324, 3.402_823_5e38 * 2.0] {
            assert_eq!(narrow(value, &SINGLE), None, "{value}");
        }
    }
}
