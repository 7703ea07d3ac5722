// Memory that only starting needed.
#pragma once

namespace banyan {

/// Gives pages of programs and libraries that are only read back to the system's page cache, from which those
/// that are needed return. Registrations, descriptors of messages, symbols and parsers are used while a
/// program starts, and count as its memory until it ends otherwise (20 MB). Not while a debugger, which
/// writes its breakpoints there, watches the process.
void give_back_start_pages();

}  // namespace banyan
