//! What may live in an arena: values that mean the same to every kernel.
//!
//! Contract: a type is [`Shareable`] unless something in it, however deep and however private, is
//! not: a reference, a function pointer, a trait object, a type id. Those name places in one
//! kernel's image. `docs/design/shadowable.md` says what else is asked of code whose state is
//! shared, and who checks it.
//!
//! The exceptions below are reviewed one by one; there is no other list.
#![allow(unsafe_code)] // the trait is unsafe to implement

/// Means the same to every kernel.
///
/// # Safety
/// Implemented by the compiler for whatever is made of shareable parts; an implementation of
/// somebody else's says that a type which is not may live in an arena all the same.
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

/// A value that nobody checked: for self-tests that put into an arena what has no business there,
/// to see it found. `clippy.toml` bans it from services.
pub struct Unchecked<T>(pub T);

// SAFETY: who names it says that what it holds may be met by kernels to which it means nothing.
unsafe impl<T> Shareable for Unchecked<T> {}

/// Types of other crates that hold what is not shareable, and never in what we make of them.
/// Each has its reason in `docs/design/shadowable.md`.
#[cfg(feature = "smoltcp")]
mod reviewed {
    use super::Shareable;

    // SAFETY: it is a borrowed slice or a `Vec`; `services/net` makes it of `Vec` only, and
    // nothing in smoltcp turns one into the other.
    unsafe impl<T: Shareable> Shareable for managed::ManagedSlice<'_, T> {}

    // SAFETY: its one function pointer is `None` until `set_tsval_generator`, which clippy.toml
    // bans; its buffers are made of `Vec`. All else in it is numbers.
    unsafe impl Shareable for smoltcp::socket::tcp::Socket<'_> {}
}

#[cfg(test)]
mod tests {
    use super::Shareable;
    use core::marker::PhantomData;
    use std::collections::{BTreeMap, HashMap, VecDeque};
    use std::rc::Rc;

    /// Says of a type whether it is shareable: where it is, its own constant hides the trait's.
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
    fn what_means_the_same_everywhere_is_shareable() {
        check!(true: u64, Option<Box<u32>>, String, Vec<VecDeque<u8>>, BTreeMap<u64, Vec<u8>>);
        check!(true: Rc<core::cell::RefCell<Vec<u64>>>, [Option<core::num::NonZeroU32>; 4]);
    }

    #[test]
    fn what_names_a_place_in_an_image_is_not() {
        check!(false: &'static str, &'static [u8], &'static mut u8, Option<&'static u64>, Choice);
        check!(false: fn(), fn(u32) -> u32, unsafe fn(u8), extern "C" fn(u8, u8), Hidden);
        check!(false: Box<dyn Send>, Vec<Box<dyn Fn()>>, core::any::TypeId);
        check!(false: std::borrow::Cow<'static, str>, core::task::Waker);
        check!(false: PhantomData<&'static u8>, core::iter::Map<core::ops::Range<u8>, fn(u8)>);
    }

    /// Known holes, closed by other means (`docs/design/shadowable.md`): if one of these fails, the
    /// compiler has learnt to see it.
    #[test]
    fn what_the_compiler_does_not_see() {
        check!(true: std::sync::Arc<str>, HashMap<u8, u8>);
    }
}
