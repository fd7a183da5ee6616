#pragma once
// What looks into a sandbox's traffic, all of it: personal data, secrets, metering, in the
// sandbox's own order, each with its records in an audit log (src/sandbox/sandbox.cc, filters()).

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>

#include "mvm/audit/log.h"
#include "mvm/audit/writer.h"
#include "mvm/sys/file.h"

#include "../../src/sandbox/ai_meter.h"
#include "../../src/sandbox/pii.h"
#include "../../src/sandbox/secrets.h"
#include "../../src/sandbox/withhold.h"

namespace mvm::bench {

class Protection {
 public:
  static constexpr std::string_view kSecret = "sk-made-up-0f1e2d3c4b5a69788796a5b4c3d2e1f0";

  // For exchanges with this host, which is metered as one that speaks OpenAI's interface. Its files
  // are in `directory`.
  Protection(const std::string& host, const std::string& directory) {
    network_.enabled = true;
    network_.allow_hosts = {host};
    network_.pii.mode = "tokenize";
    network_.ai.metering = true;
    network_.ai.providers = {host};
    network_.ai.budget.max_total_tokens = uint64_t{1} << 40;
    proto::SecretsConfig secrets;
    secrets.rules.resize(1);
    secrets.rules[0].name = "KEY";
    secrets.rules[0].hosts = {host};
    secrets.values = {{"KEY", std::string(kSecret)}};
    secrets_ = std::make_shared<const secret::Secrets>(secrets);
    withholder_ = std::make_unique<sandbox::Withholder>(secrets_, network_);
    for (const char* folder : {"/log", "/data"}) sys::make_directories(directory + folder);
    writer_ = std::make_unique<audit::Writer>(session(directory + "/log"), audit::WriterOptions(),
                                              [](const auto&) {});
    data_ = sys::open_file(directory + "/data", O_RDONLY | O_DIRECTORY);
    meter_ = sandbox::make_ai_meter(
        network_, data_.get(),
        {[this](const metering::UsageNotice& notice) {
           defer(sandbox::usage_record(withholder_->cleaned(notice)));
         },
         [this](std::string_view model) { return withholder_->holds(model); }});
    sources_.push_back(sandbox::pii_source(network_, [this](const privacy::Note& note) {
      defer(sandbox::pii_record(withholder_->cleaned(note)));
    }));
    for (auto& source : sandbox::secret_source(
             secrets_, {[this](const guard::SecretNotice& notice) {
                          auto record = sandbox::secret_record(withholder_->cleaned(notice));
                          const auto of = sandbox::deferred_as(notice);
                          if (!of) return writer_->append(record).has_value();
                          writer_->defer(std::move(record), *of);
                          return true;
                        },
                        [](const guard::SecretNotice&) {}}))
      sources_.push_back(std::move(source));
    sources_.push_back(meter_->source());
  }

  const std::vector<std::shared_ptr<egress::FilterSource>>& sources() const { return sources_; }
  // What they told goes on record: Settings::commit.
  std::function<bool(egress::Passage)> commit() const {
    return [this](egress::Passage passage) {
      return writer_->commit(sandbox::commit_of(passage)).has_value();
    };
  }
  // What the guest has in the secret's place.
  const std::string& placeholder() const { return secrets_->all()[0].placeholder; }

 private:
  static audit::Session session(const std::string& directory) {
    const auto key = [](std::byte of) {
      crypto::SigningKey::Seed seed;
      seed.fill(of);
      return crypto::SigningKey(seed);
    };
    return audit::open_log(directory, audit::LogId("sb-bench"), key(std::byte{1}),
                           key(std::byte{2}));
  }
  void defer(audit::Event event) {
    writer_->defer(std::move(event), audit::Writer::Of::WhatHasHappened);
  }

  proto::NetworkConfig network_;
  std::shared_ptr<const secret::Secrets> secrets_;
  std::unique_ptr<sandbox::Withholder> withholder_;
  std::unique_ptr<audit::Writer> writer_;
  sys::Fd data_;
  std::unique_ptr<sandbox::AiMeter> meter_;
  std::vector<std::shared_ptr<egress::FilterSource>> sources_;
};

}
