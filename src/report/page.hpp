// The files of src/report/page, as the build put them into the program.
#pragma once

#include <string_view>

namespace banyan::report {

extern const std::string_view kPageHtml, kPageCss, kPageJs, kLiveJs;

}  // namespace banyan::report
