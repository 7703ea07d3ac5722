// The source of the module `caffe` (caffe_module.py), a part of the library.
#pragma once

#include <string_view>

namespace banyan {

extern const std::string_view kCaffeModule;

}  // namespace banyan
