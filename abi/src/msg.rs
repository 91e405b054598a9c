//! Layout of a message link: the memory between one sender and one receiver.
