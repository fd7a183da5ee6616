#pragma once
// The forms of bodies, one file each. JSON is in mvm/protect/json.h.

#include "mvm/protect/body.h"

namespace mvm::protect {

// `label`: what the text is called, as of a form's field.
std::unique_ptr<BodyRewriter> text_rewriter(Detectors detectors, Replace replace,
                                            std::string_view label = {});
std::unique_ptr<BodyRewriter> fields_rewriter(const BodyRules& rules);
std::unique_ptr<BodyRewriter> xml_rewriter(const BodyRules& rules);
// `depth`: of multiparts within each other.
std::unique_ptr<BodyRewriter> multipart_rewriter(const std::string& boundary,
                                                 const BodyRules& rules, unsigned depth);
inline constexpr unsigned kMaxMultipartDepth = 3;
std::unique_ptr<BodyRewriter> body_rewriter(const MediaType& type, const BodyRules& rules,
                                            unsigned depth);

}
