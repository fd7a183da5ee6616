#pragma once
// What the daemon can do, as one interface: the server calls it for each request, the client offers
// the same calls over the socket. Every call may throw Error (or ApiError, with a hint); the kind
// becomes the HTTP status.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/api/types.h"
#include "mvm/api/usage.h"

namespace mvm::api {

// Takes the next piece of a stream; false: the reader is gone, stop.
using ByteSink = std::function<bool(std::string_view)>;
using ProgressSink = std::function<bool(const ImportProgress&)>;

// Called from many threads at once.
class Service {
 public:
  virtual ~Service() = default;

  virtual Version version() = 0;
  virtual std::vector<Sandbox> sandboxes(bool all) = 0;  // all: ended ones too
  virtual Sandbox create(const SandboxSpec& spec) = 0;
  virtual Sandbox sandbox(const std::string& name) = 0;  // name or id
  virtual Sandbox stop(const std::string& name, const StopRequest& request) = 0;
  virtual Sandbox start(const std::string& name, const StartRequest& request) = 0;
  // As it is once it has ended, or after request.timeout_ms.
  virtual Sandbox wait(const std::string& name, const WaitRequest& request) = 0;
  virtual void remove(const std::string& name, bool force) = 0;
  // The port as it is published, its number chosen when it was to be. Of a sandbox that does not
  // run it is from the next start on.
  virtual proto::PublishedPort publish(const std::string& name,
                                       const proto::PublishedPort& port) = 0;
  virtual void unpublish(const std::string& name, const proto::PublishedPort& port) = 0;
  // The console's output so far; with follow, further output until the sandbox ends.
  virtual void logs(const std::string& name, bool follow, const ByteSink& sink) = 0;

  virtual std::vector<Image> images() = 0;
  virtual Image image(const std::string& reference) = 0;
  virtual Image import_image(const ImportRequest& request, const ProgressSink& progress) = 0;
  virtual Image pull_image(const PullRequest& request, const ProgressSink& progress) = 0;
  virtual Image capture_image(const CaptureRequest& request, const ProgressSink& progress) = 0;
  virtual Image adopt_image(const AdoptRequest& request) = 0;  // throws NotFound
  virtual void remove_image(const std::string& reference, bool force) = 0;
  virtual Image tag_image(const std::string& reference, const TagRequest& request) = 0;
  virtual Image verify_image(const std::string& reference) = 0;  // throws Invalid when damaged
  virtual PruneResult prune_images(const PruneRequest& request) = 0;
  virtual std::vector<Kernel> kernels() = 0;
  virtual Kernel import_kernel(const KernelImportRequest& request) = 0;
  virtual void remove_kernel(const std::string& name, bool force) = 0;

  // Of the sandboxes whose use of AI is metered.
  virtual std::vector<AiUsage> ai_usage() = 0;
  virtual AiUsage change_ai_budget(const std::string& name,
                                   const proto::AiBudgetRequest& request) = 0;
  // Prometheus' text, or OpenTelemetry's JSON.
  virtual std::string metrics(bool otlp) = 0;

  virtual void stop_daemon() = 0;  // returns at once; sandboxes go on
};

}
