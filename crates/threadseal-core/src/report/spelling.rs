//! The macro that defines a closed set of words, each with its one spelling.

/// Defines an enum whose variants are written as words: each variant with its spelling, once.
///
/// The enum gets `ALL`, `as_str`, `Display` and `Serialize`. For tests, it also compares with text,
/// so that they may state the spelling on the wire; code that ships compares variants.
macro_rules! spelled {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $( $(#[$doc:meta])* $variant:ident => $text:literal, )+ }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`")]
                $(#[$doc])*
                $variant,
            )+
        }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling in reports.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(any(test, feature = "testing"))]
        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                self.as_str() == text
            }
        }

        #[cfg(any(test, feature = "testing"))]
        impl PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                self.as_str() == *text
            }
        }
    };
}

pub(super) use spelled;
