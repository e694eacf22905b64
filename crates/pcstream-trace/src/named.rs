//! Enums with a name for each variant.

/// Declares the names of an enum's variants, each once: `ALL`, `name` and `from_name`. One that is left out does not compile.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Order {
///     Oldest,
///     Newest,
/// }
/// pcstream_trace::named!(Order: Oldest = "oldest", Newest = "newest");
///
/// assert_eq!(Order::ALL.map(Order::name), ["oldest", "newest"]);
/// assert_eq!(Order::from_name("newest"), Some(Order::Newest));
/// ```
#[macro_export]
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All of them, in order.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// The name in traces, tables and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }

            /// The one with this name.
            pub fn from_name(name: &str) -> Option<$type> {
                match name {
                    $($name => Some($type::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
