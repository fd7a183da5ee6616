#include "engine.h"

#include "mvm/egress/resolv_conf.h"
#include "mvm/sys/file.h"

namespace mvm::egress {
namespace {

std::vector<Endpoint> resolvers_of(std::vector<Endpoint> given) {
  constexpr size_t kMaxFile = 64 * 1024;
  if (given.empty())
    given = parse_resolv_conf(as_text(sys::read_file("/etc/resolv.conf", kMaxFile)));
  if (given.empty())
    throw Error(Kind::Unavailable,
                "no DNS resolver for this sandbox: /etc/resolv.conf names none; name one there");
  return given;
}

}

Proxy::Engine::Engine(loop::Loop& loop, net::GuestNetwork network, Settings settings,
                      EventSink sink)
    : reporter_(loop, std::move(sink), settings.refusals),
      judge_(settings.policy, settings.mode),
      questions_(loop, settings.ask_patience, std::move(settings.on_question)),
      pins_(std::move(network.pins)),
      resolver_(loop, resolvers_of(std::move(settings.resolvers))),
      filters_(std::move(settings.filters)),
      names_(settings.limits, filters_),
      interception_(Interception::for_policy(settings)),
      commit_(std::move(settings.commit)),
      meter_(settings.limits, counters_),
      doors_(std::move(settings.http_proxy)),
      timeouts_(settings.timeouts),
      dns_({loop, judge_, pins_, resolver_, names_, reporter_, counters_},
           std::move(network.dns_udp), std::move(network.dns_tcp)),
      refused_({loop, judge_, pins_, reporter_, counters_}, std::move(network.refused)),
      flows_({loop, judge_, questions_, pins_, resolver_, names_, reporter_, pipes_, meter_,
              partings_, interception_.get(), filters_, commit_, doors_, timeouts_, counters_},
             std::move(network.tcp), settings.limits) {
  pins_.open(judge_.open_ranges());
  pins_.open(doors_);
}

void Proxy::Engine::set_policy(policy::Policy policy, Mode mode) {
  judge_.replace(std::move(policy), mode);
  pins_.repin([this](const dns::Name& name) { return judge_.ports_of(name); });
  pins_.open(judge_.open_ranges());
  questions_.settle(judge_);
}

Counters Proxy::Engine::counters() const {
  Counters counters = counters_;
  counters.pins = pins_.size();
  counters.reports_lost = refused_.lost();
  return counters;
}

void Proxy::Engine::reset() {
  flows_.reset_all();
  static_cast<void>(partings_.drop());
  pins_.clear();
  resolver_.forget();
}

void Proxy::Engine::stop_accepting() {
  flows_.stop_accepting();
  dns_.stop();
}

}
