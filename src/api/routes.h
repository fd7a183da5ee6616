#pragma once
// The routes, once: the client fills a pattern in, the server matches against it and calls what the
// table of routes.cc puts beside it.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mvm/api/service.h"

namespace mvm::api {

// A pattern's segments in braces are parameters: one non-empty path segment each.
struct Route {
  std::string_view method;
  std::string_view pattern;
  bool operator==(const Route&) const = default;
};

inline constexpr Route kGetVersion{"GET", "/v1/version"};
inline constexpr Route kListSandboxes{"GET", "/v1/sandboxes"};
inline constexpr Route kCreateSandbox{"POST", "/v1/sandboxes"};
inline constexpr Route kGetSandbox{"GET", "/v1/sandboxes/{name}"};
inline constexpr Route kStopSandbox{"POST", "/v1/sandboxes/{name}/stop"};
inline constexpr Route kStartSandbox{"POST", "/v1/sandboxes/{name}/start"};
inline constexpr Route kWaitForSandbox{"POST", "/v1/sandboxes/{name}/wait"};
inline constexpr Route kRemoveSandbox{"DELETE", "/v1/sandboxes/{name}"};
inline constexpr Route kPublishPort{"POST", "/v1/sandboxes/{name}/ports"};
inline constexpr Route kUnpublishPort{"DELETE", "/v1/sandboxes/{name}/ports/{place}"};
inline constexpr Route kGetLogs{"GET", "/v1/sandboxes/{name}/logs"};
inline constexpr Route kListImages{"GET", "/v1/images"};
inline constexpr Route kImportImage{"POST", "/v1/images"};
inline constexpr Route kGetImage{"GET", "/v1/images/{ref}"};
inline constexpr Route kPullImage{"POST", "/v1/images/pull"};
inline constexpr Route kCaptureImage{"POST", "/v1/images/capture"};
inline constexpr Route kAdoptImage{"POST", "/v1/images/adopt"};
inline constexpr Route kPruneImages{"POST", "/v1/images/prune"};
inline constexpr Route kTagImage{"POST", "/v1/images/{ref}/tag"};
inline constexpr Route kVerifyImage{"POST", "/v1/images/{ref}/verify"};
inline constexpr Route kRemoveImage{"DELETE", "/v1/images/{ref}"};
inline constexpr Route kListKernels{"GET", "/v1/kernels"};
inline constexpr Route kImportKernel{"POST", "/v1/kernels"};
inline constexpr Route kRemoveKernel{"DELETE", "/v1/kernels/{name}"};
inline constexpr Route kGetAiUsage{"GET", "/v1/ai/usage"};
inline constexpr Route kChangeAiBudget{"POST", "/v1/sandboxes/{name}/ai/budget"};
inline constexpr Route kGetMetrics{"GET", "/v1/metrics"};
inline constexpr Route kStopDaemon{"POST", "/v1/daemon/stop"};

using Parameters = std::vector<std::string>;
using Query = std::vector<std::pair<std::string, std::string>>;

// The request target of a route, encoded.
std::string target_of(const Route& route, const Parameters& parameters = {},
                      const Query& query = {});

struct Call {
  Parameters parameters;
  Query query;
  std::string body;
};

// Where a handler puts its answer: one document, or a stream.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void json(unsigned status, std::string_view document) = 0;
  virtual void empty() = 0;  // 204
  // The first piece begins the answer; false: the client is gone. An empty piece only asks.
  virtual bool stream(std::string_view content_type, std::string_view piece) = 0;
};

struct Endpoint {
  Route route;
  void (*handle)(Service& service, const Call& call, Reply& reply);
};
std::span<const Endpoint> endpoints();

// The parameters when `path` (decoded segments) fits the pattern.
std::optional<Parameters> match(std::string_view pattern, const std::vector<std::string>& path);

}
