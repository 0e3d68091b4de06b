//! 128-bit fingerprints: two things with the same one are taken for the same thing. Of the fingerprints of
//! states, which are the most, fewer bits are kept (`visited.rs`).

use std::fmt::{self, Debug, Write};

/// Of anything, by all that its derived `Debug` prints. `{:+?}` tells the lives of contacts apart.
pub(super) fn of(value: &impl Debug) -> u128 {
    let mut mixer = Mixer::default();
    // Writing into a mixer cannot fail.
    let _ = write!(mixer, "{value:+?}");
    mixer.finish()
}

/// Of plain numbers.
pub(super) fn of_words(words: impl IntoIterator<Item = u64>) -> u128 {
    let mut mixer = Mixer::default();
    words.into_iter().for_each(|word| mixer.word(word));
    mixer.finish()
}

/// Two lanes that multiply and fold, each with its own odd constant.
struct Mixer {
    left: u64,
    right: u64,
    words: u64,
}

impl Default for Mixer {
    fn default() -> Mixer {
        Mixer { left: 0x243f_6a88_85a3_08d3, right: 0x1319_8a2e_0370_7344, words: 0 }
    }
}

impl Mixer {
    fn word(&mut self, word: u64) {
        self.left = fold(self.left ^ word, 0x9e37_79b9_7f4a_7c15);
        self.right = fold(self.right.rotate_left(23) ^ word, 0xd6e8_feb8_6659_fd93);
        self.words += 1;
    }

    fn finish(mut self) -> u128 {
        let words = self.words;
        self.word(words);
        self.word(self.left.rotate_left(32));
        (u128::from(self.left) << 64) | u128::from(self.right)
    }
}

impl Write for Mixer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(7) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            // The length keeps "a" + "b" and "ab" apart only by accident; both always come in the
            // same pieces from the same value.
            bytes[7] = chunk.len() as u8;
            self.word(u64::from_le_bytes(bytes));
        }
        Ok(())
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    (product as u64) ^ ((product >> 64) as u64) ^ a.rotate_left(17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_show() {
        assert_eq!(of(&(1, "a")), of(&(1, "a")));
        assert_ne!(of(&(1, "a")), of(&(1, "b")));
        assert_ne!(of_words([1, 2]), of_words([2, 1]));
        assert_ne!(of_words([0]), of_words([0, 0]));
    }
}
