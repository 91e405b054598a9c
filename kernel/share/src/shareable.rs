//! What may live in an arena: values that mean the same to every kernel.
//!
//! Contract: a type is [`Shareable`] unless something in it, however deep and however private, is
//! not: a reference, a function pointer, a trait object, a type id. Those name places in one
//! kernel's image. `docs/shadowable.md` says what else is asked of code whose state is shared, and
//! who checks it.
//!
//! The exceptions below are reviewed one by one; there is no other list.
#![allow(unsafe_code)] // the trait is unsafe to implement; nothing here does

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
