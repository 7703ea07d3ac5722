#include "banyan/base/error.hpp"

#include <utility>

namespace banyan {

Error::Error(ErrorKind kind, std::string message)
    : kind_(kind), message_(std::move(message)), full_(message_) {}

void Error::add_context(const std::string& where) { full_ += "\n  " + where; }

}  // namespace banyan
