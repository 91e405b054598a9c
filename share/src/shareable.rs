//! Types that may live in an arena: values with the same meaning in every kernel.
//!
//! Contract: a type is [`Shareable`] unless it contains, at any depth, a reference, a function
//! pointer, a trait object or a type id. Those refer to one kernel's image.
//! `docs/design/shadowable.md` lists the other requirements on code whose state is shared, and what
//! checks them.
//!
//! The reviewed exceptions are in this file; there is no other list.
#![allow(unsafe_code)] // the trait is unsafe to implement

/// Has the same meaning in every kernel.
///
/// # Safety
/// The compiler implements this for types made of shareable parts. A manual implementation asserts
/// that values of the type, though not shareable by their parts, may live in an arena.
pub unsafe auto trait Shareable {}

impl<T: ?Sized> !Shareable for &T {}
impl<T: ?Sized> !Shareable for &mut T {}
impl !Shareable for core::any::TypeId {}
impl !Shareable for core::task::Waker {}
impl !Shareable for core::panic::Location<'_> {}

macro_rules! not_functions {
    ($($parameter:ident)*) => {
        impl<R, $($parameter),*> !Shareable for fn($($parameter),*) -> R {}
        impl<R, $($parameter),*> !Shareable for unsafe fn($($parameter),*) -> R {}
        impl<R, $($parameter),*> !Shareable for extern "C" fn($($parameter),*) -> R {}
    };
}

not_functions!();
not_functions!(A);
not_functions!(A B);
not_functions!(A B D);
not_functions!(A B D E);
not_functions!(A B D E F);
not_functions!(A B D E F G);

/// An unchecked value: self-tests use it to put something unshareable into an arena. `clippy.toml`
/// bans it from services.
pub struct Unchecked<T>(pub T);

// SAFETY: the user accepts that kernels may see a value that means nothing to them.
unsafe impl<T> Shareable for Unchecked<T> {}

/// Types of other crates with unshareable parts that our uses never fill.
/// `docs/design/shadowable.md` has the reason for each.
#[cfg(feature = "smoltcp")]
mod reviewed {
    use super::Shareable;

    // SAFETY: it is a borrowed slice or a `Vec`; `services/net` only builds it from `Vec`, and
    // smoltcp never converts one into the other.
    unsafe impl<T: Shareable> Shareable for managed::ManagedSlice<'_, T> {}

    // SAFETY: its one function pointer is `None` until `set_tsval_generator`, which clippy.toml
    // bans; its buffers are built from `Vec`; the rest is numbers.
    unsafe impl Shareable for smoltcp::socket::tcp::Socket<'_> {}
}

#[cfg(test)]
mod tests {
    use super::Shareable;
    use core::marker::PhantomData;
    use std::collections::{BTreeMap, HashMap, VecDeque};
    use std::rc::Rc;

    /// Tells whether a type is shareable: if so, the inherent constant shadows the trait's.
    struct Is<T: ?Sized>(PhantomData<T>);

    trait No {
        const SHAREABLE: bool = false;
    }

    impl<T: ?Sized> No for Is<T> {}

    impl<T: ?Sized + Shareable> Is<T> {
        const SHAREABLE: bool = true;
    }

    macro_rules! check {
        ($expected:literal: $($type:ty),* $(,)?) => {
            $(assert_eq!(Is::<$type>::SHAREABLE, $expected, stringify!($type));)*
        };
    }

    #[allow(dead_code)]
    struct Hidden {
        deep: Vec<Option<Box<Inner>>>,
    }
    #[allow(dead_code)]
    struct Inner {
        call: Option<fn(u32) -> u32>,
    }
    #[allow(dead_code)]
    enum Choice {
        Name(&'static str),
        Number(u64),
    }

    #[test]
    fn plain_values_and_their_containers_are_shareable() {
        check!(true: u64, Option<Box<u32>>, String, Vec<VecDeque<u8>>, BTreeMap<u64, Vec<u8>>);
        check!(true: Rc<core::cell::RefCell<Vec<u64>>>, [Option<core::num::NonZeroU32>; 4]);
    }

    #[test]
    fn references_into_an_image_are_not_shareable() {
        check!(false: &'static str, &'static [u8], &'static mut u8, Option<&'static u64>, Choice);
        check!(false: fn(), fn(u32) -> u32, unsafe fn(u8), extern "C" fn(u8, u8), Hidden);
        check!(false: Box<dyn Send>, Vec<Box<dyn Fn()>>, core::any::TypeId);
        check!(false: std::borrow::Cow<'static, str>, core::task::Waker);
        check!(false: PhantomData<&'static u8>, core::iter::Map<core::ops::Range<u8>, fn(u8)>);
    }

    /// Types that the compiler wrongly accepts; other checks reject them
    /// (`docs/design/shadowable.md`). If this fails, the compiler now rejects one of them.
    #[test]
    fn known_holes_of_the_auto_trait() {
        check!(true: std::sync::Arc<str>, HashMap<u8, u8>);
    }
}
