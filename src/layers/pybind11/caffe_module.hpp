// The sources of the module `caffe` and of what is in it (caffe_*.py), a part of the library.
#pragma once

#include <string_view>

namespace banyan {

extern const std::string_view kCaffeModule, kCaffeProto, kCaffeIo;

}  // namespace banyan
