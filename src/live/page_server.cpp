#include "banyan/live/page_server.hpp"

#include "banyan/base/error.hpp"
#include "base/sibling_library.hpp"
#include "live/http_backend.hpp"

namespace banyan::live {
namespace {

const LoadedBackend<HttpBackend>& backend() {
  constexpr const char* kLibrary = "libbanyan_httplib.so";
  static const auto loaded =
      load_part<HttpBackend>(kLibrary, "part for HTTP (libbanyan_httplib.so)", kHttpBackendSymbol);
  return loaded;
}

}  // namespace

#ifdef BANYAN_WITH_HTTPLIB
bool has_page_server() { return true; }
#else
bool has_page_server() { return false; }
#endif

PageServer::PageServer(const PageServerOptions& options) {
  if (!has_page_server())
    bad_input("--serve=", options.port,
              ": this build of Banyan lacks what it takes: install libcpp-httplib-dev and build again");
  if (backend().table == nullptr) bad_input("--serve=", options.port, ": ", backend().why);
  server_ = backend().table->start(options);
}

PageServer::~PageServer() = default;

const std::string& PageServer::url() const { return server_->url(); }

std::shared_ptr<metrics::Sink> PageServer::sink() const { return server_->sink(); }

}  // namespace banyan::live
