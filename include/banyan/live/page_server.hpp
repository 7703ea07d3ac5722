// PageServer: the report of a run that goes on, to browsers on this machine: `trainer --serve`. What speaks
// HTTP is a library of its own, libbanyan_httplib.so, which is loaded with the first server.
#pragma once

#include <memory>
#include <string>

#include "banyan/metrics/sink.hpp"

namespace banyan::live {

/// Was this build made with the library that it takes?
bool has_page_server();

struct PageServerOptions {
  int port = 0;             ///< 0: any that is free
  std::string name = {};    ///< of the run, where there is no folder
  std::string folder = {};  ///< of --metrics; may be empty
  bool resumes = false;     ///< what the folder holds is the beginning of this run
};

class HttpServer;

/// Listens on 127.0.0.1 only. Whoever knows the address, which has a random part, may read; nothing can be
/// written. Works on threads of its own, for which a run never waits.
class PageServer {
 public:
  /// Throws bad_input if the port cannot be used, in a build without the library, and where it cannot be
  /// loaded.
  explicit PageServer(const PageServerOptions& options);
  /// Pages that are open get the run's last state; waits for them two seconds at most.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// http://127.0.0.1:8080/4f0c.../
  const std::string& url() const;
  std::shared_ptr<metrics::Sink> sink() const;

 private:
  std::unique_ptr<HttpServer> server_;
};

}  // namespace banyan::live
