// What AddressSanitizer does unless ASAN_OPTIONS or the program says otherwise. It looks for this function in
// the program, not in its libraries.
extern "C" [[gnu::weak]] const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "handle_sigill=1";  // undefined behaviour ends in an illegal instruction
}
