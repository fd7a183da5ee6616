#pragma once
// The daemon's Service from another process, over its socket. Blocking, one request at a time; for
// one thread. Every call has a deadline: a daemon that accepts and never answers is
// Error{Timeout} naming the socket, one that goes away in between is Error{Unavailable}.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "mvm/api/service.h"

namespace mvm::api {

struct ClientOptions {
  // For an answer that needs no work. Calls that start or stop something add their own time to it.
  std::chrono::milliseconds timeout{10'000};
  // The longest silence within an image import.
  std::chrono::milliseconds import_silence{300'000};
};

class Client final : public Service {
 public:
  // Nothing when nobody listens at `socket`: the caller then starts the daemon.
  static std::unique_ptr<Client> connect(const std::string& socket, ClientOptions options = {});
  ~Client() override;

  Version version() override;
  std::vector<Sandbox> sandboxes(bool all) override;
  Sandbox create(const SandboxSpec& spec) override;
  Sandbox sandbox(const std::string& name) override;
  Sandbox stop(const std::string& name, const StopRequest& request) override;
  Sandbox wait(const std::string& name, const WaitRequest& request) override;
  Sandbox start(const std::string& name, const StartRequest& request) override;
  void remove(const std::string& name, bool force) override;
  proto::PublishedPort publish(const std::string& name, const proto::PublishedPort& port) override;
  void unpublish(const std::string& name, const proto::PublishedPort& port) override;
  void logs(const std::string& name, bool follow, const ByteSink& sink) override;
  std::vector<Image> images() override;
  Image image(const std::string& reference) override;
  Image import_image(const ImportRequest& request, const ProgressSink& progress) override;
  Image pull_image(const PullRequest& request, const ProgressSink& progress) override;
  Image capture_image(const CaptureRequest& request, const ProgressSink& progress) override;
  Image adopt_image(const AdoptRequest& request) override;
  void remove_image(const std::string& reference, bool force) override;
  Image tag_image(const std::string& reference, const TagRequest& request) override;
  Image verify_image(const std::string& reference) override;
  PruneResult prune_images(const PruneRequest& request) override;
  std::vector<Kernel> kernels() override;
  Kernel import_kernel(const KernelImportRequest& request) override;
  void remove_kernel(const std::string& name, bool force) override;
  std::vector<AiUsage> ai_usage() override;
  AiUsage change_ai_budget(const std::string& name, const proto::AiBudgetRequest& request) override;
  std::string metrics(bool otlp) override;
  void stop_daemon() override;

 private:
  class Connection;
  explicit Client(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}
