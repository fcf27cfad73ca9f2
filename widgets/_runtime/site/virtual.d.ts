/** Modules that exist only in the bundle: builder/bundle.mjs writes them. */
declare module "raona:views" {
  /** Widget id → its optional view, widgets/<id>/view.ts. */
  export const views: Record<string, () => Promise<import("../ui/view").ViewModule>>;
}
