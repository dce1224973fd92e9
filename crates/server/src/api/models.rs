//! `/v1/models`

use crate::app::Shared;
use crate::error::ApiResult;
use crate::loaded::Loaded;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

/// `GET /v1/models`
pub async fn list(State(app): State<Shared>) -> ApiResult<Json<Value>> {
    let loaded = app.loaded()?;
    Ok(Json(json!({"object": "list", "data": [describe(&loaded)]})))
}

/// `GET /v1/models/{id}`
pub async fn get(State(app): State<Shared>, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    Ok(Json(describe(&*app.model(Some(&id))?)))
}

fn describe(loaded: &Loaded) -> Value {
    let s = &loaded.summary;
    let memory: Map<String, Value> = s.memory.iter().map(|&(to, n)| (to.to_owned(), n.into())).collect();
    json!({
        "id": loaded.name,
        "object": "model",
        "created": loaded.created,
        "owned_by": "zinc",
        "max_model_len": s.context,
        "meta": {
            "architecture": s.architecture,
            "backend": s.backend,
            "device": s.device,
            "policy": s.policy,
            "kv_type": s.kv_type,
            "vocab": s.vocab,
            "memory": memory,
            "chat": !loaded.template_source.is_empty(),
            "tools": loaded.format.tools().is_some(),
            "reasoning": loaded.format.reasoning_end().is_some() || loaded.format.has_channels(),
        },
    })
}
